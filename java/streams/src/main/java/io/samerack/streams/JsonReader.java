package io.samerack.streams;

import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/**
 * Reads one JSON document (RFC 8259) to maps, lists, texts, numbers, truth values and null.
 *
 * <p>Whole numbers become {@link Long}, others {@link Double}. Nesting is bounded, so that no answer exhausts the stack.
 */
final class JsonReader {
    /** The document is not JSON, or its parts are not what was expected. */
    static final class MalformedException extends Exception {
        private static final long serialVersionUID = 1L;

        MalformedException(String message) {
            super(message);
        }
    }

    private static final int MAX_DEPTH = 64;

    private final String text;
    private int at;

    private JsonReader(String text) {
        this.text = text;
    }

    /**
     * Reads a document.
     *
     * @throws MalformedException it is not one JSON value
     */
    static Object read(String text) throws MalformedException {
        JsonReader reader = new JsonReader(text);
        Object value = reader.value(0);
        reader.skipSpace();
        if (reader.at < text.length()) {
            throw reader.malformed("nothing more");
        }
        return value;
    }

    private Object value(int depth) throws MalformedException {
        if (depth > MAX_DEPTH) {
            throw malformed("at most " + MAX_DEPTH + " levels");
        }
        skipSpace();
        switch (at < text.length() ? text.charAt(at) : ' ') {
            case '{':
                return object(depth);
            case '[':
                return array(depth);
            case '"':
                return string();
            case 't':
                return word("true", Boolean.TRUE);
            case 'f':
                return word("false", Boolean.FALSE);
            case 'n':
                return word("null", null);
            default:
                return number();
        }
    }

    private Map<String, Object> object(int depth) throws MalformedException {
        Map<String, Object> found = new LinkedHashMap<>();
        at++;
        if (takes('}')) {
            return found;
        }
        do {
            skipSpace();
            if (at >= text.length() || text.charAt(at) != '"') {
                throw malformed("a name");
            }
            String name = string();
            expect(':');
            found.put(name, value(depth + 1));
        } while (takes(','));
        expect('}');
        return found;
    }

    private List<Object> array(int depth) throws MalformedException {
        List<Object> found = new ArrayList<>();
        at++;
        if (takes(']')) {
            return found;
        }
        do {
            found.add(value(depth + 1));
        } while (takes(','));
        expect(']');
        return found;
    }

    private String string() throws MalformedException {
        StringBuilder found = new StringBuilder();
        for (at++; at < text.length(); at++) {
            char letter = text.charAt(at);
            if (letter == '"') {
                at++;
                return found.toString();
            }
            if (letter < ' ') {
                throw malformed("no control character");
            }
            found.append(letter == '\\' ? escaped() : letter);
        }
        throw malformed("the end of a text");
    }

    private char escaped() throws MalformedException {
        at++;
        char kind = at < text.length() ? text.charAt(at) : ' ';
        if (kind == 'u') {
            if (at + 4 >= text.length()) {
                throw malformed("four hexadecimal digits");
            }
            int code = 0;
            for (int digit = 0; digit < 4; digit++) {
                int worth = Character.digit(text.charAt(++at), 16);
                if (worth < 0) {
                    throw malformed("a hexadecimal digit");
                }
                code = code * 16 + worth;
            }
            return (char) code;
        }
        int index = "\"\\/bfnrt".indexOf(kind);
        if (index < 0) {
            throw malformed("a character that may be escaped");
        }
        return "\"\\/\b\f\n\r\t".charAt(index);
    }

    private Object word(String word, Object meaning) throws MalformedException {
        if (!text.startsWith(word, at)) {
            throw malformed("true, false or null");
        }
        at += word.length();
        return meaning;
    }

    private Number number() throws MalformedException {
        int start = at;
        boolean whole = true;
        while (at < text.length() && "+-.0123456789eE".indexOf(text.charAt(at)) >= 0) {
            whole &= "-0123456789".indexOf(text.charAt(at)) >= 0;
            at++;
        }
        String digits = text.substring(start, at);
        try {
            if (whole) {
                return Long.valueOf(digits);
            }
            return Double.valueOf(digits);
        } catch (NumberFormatException none) {
            at = start;
            throw malformed("a value");
        }
    }

    private boolean takes(char wanted) {
        skipSpace();
        if (at < text.length() && text.charAt(at) == wanted) {
            at++;
            return true;
        }
        return false;
    }

    private void expect(char wanted) throws MalformedException {
        if (!takes(wanted)) {
            throw malformed("'" + wanted + "'");
        }
    }

    private void skipSpace() {
        while (at < text.length() && " \t\r\n".indexOf(text.charAt(at)) >= 0) {
            at++;
        }
    }

    private MalformedException malformed(String expected) {
        return new MalformedException("expected " + expected + " at character " + at);
    }
}
