package io.samerack.broker;

/**
 * Counts elementary steps of one assignment and ends it when there are too many.
 *
 * <p>The assignor runs inside the group coordinator, so no group may keep it busy without an end. A step is about one
 * memory access; a clock is not read, so that equal groups always get equal plans.
 */
final class Steps {
    private long left;

    Steps(long bound) {
        left = bound;
    }

    /**
     * Takes steps from what is left.
     *
     * @throws WorkBoundException nothing is left
     */
    void take(long steps) {
        left -= steps;
        if (left < 0) {
            throw new WorkBoundException();
        }
    }

    /** Says that an exact plan would take more steps than are allowed. */
    static final class WorkBoundException extends RuntimeException {
        private static final long serialVersionUID = 1L;

        WorkBoundException() {
            super("the exact plan takes more steps than allowed", null, false, false);
        }
    }
}
