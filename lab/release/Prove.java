/** Loads a class from a jar, and prints the version that the jar has. Run from its source by release/prove.py. */
class Prove {
    public static void main(String[] arguments) throws Exception {
        Class<?> loaded = Class.forName(arguments[0]);
        loaded.getDeclaredConstructor().newInstance();
        System.out.print(loaded.getPackage().getImplementationVersion());
    }
}
