package io.samerack.streams;

/** Writes one JSON document, compact; commas come by themselves. */
final class JsonWriter {
    private final StringBuilder text = new StringBuilder(1 << 14);
    private boolean needsComma;

    JsonWriter startObject() {
        return open('{');
    }

    JsonWriter endObject() {
        return close('}');
    }

    JsonWriter startArray() {
        return open('[');
    }

    JsonWriter endArray() {
        return close(']');
    }

    JsonWriter key(String name) {
        value(name);
        text.append(':');
        needsComma = false;
        return this;
    }

    JsonWriter value(long number) {
        separate();
        text.append(number);
        return this;
    }

    /** Writes a text, or null. */
    JsonWriter value(String given) {
        separate();
        if (given == null) {
            text.append("null");
            return this;
        }
        text.append('"');
        for (int at = 0; at < given.length(); at++) {
            char letter = given.charAt(at);
            if (letter == '"' || letter == '\\') {
                text.append('\\').append(letter);
            } else if (letter < ' ' || Character.isSurrogate(letter)) { // half of a pair alone is no UTF-8
                text.append(String.format("\\u%04x", (int) letter));
            } else {
                text.append(letter);
            }
        }
        text.append('"');
        return this;
    }

    JsonWriter nothing() {
        return value(null);
    }

    /** Adds another document as a value. */
    JsonWriter raw(JsonWriter document) {
        separate();
        text.append(document.text);
        return this;
    }

    @Override
    public String toString() {
        return text.toString();
    }

    private JsonWriter open(char bracket) {
        separate();
        text.append(bracket);
        needsComma = false;
        return this;
    }

    private JsonWriter close(char bracket) {
        text.append(bracket);
        needsComma = true;
        return this;
    }

    private void separate() {
        if (needsComma) {
            text.append(',');
        }
        needsComma = true;
    }
}
