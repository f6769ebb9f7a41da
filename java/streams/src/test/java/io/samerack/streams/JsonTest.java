package io.samerack.streams;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;

import java.util.Arrays;
import java.util.List;
import java.util.Map;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** The JSON that goes out, and the JSON that comes in. */
class JsonTest {
    @Test
    void whatIsWrittenIsReadAgain() throws Exception {
        String text = "a\"b\\c\n\u0001\u00e9\ud83d\ude00";
        JsonWriter json = new JsonWriter();
        json.startObject().key(text).startArray().value(-5).value(text).nothing().endArray().key("").startObject().endObject();
        json.endObject();
        assertEquals(Map.of(text, Arrays.asList(-5L, text, null), "", Map.of()), JsonReader.read(json.toString()));
    }

    @Test
    void everyKindOfValueIsRead() throws Exception {
        assertEquals(
                Map.of("a", Arrays.asList(1L, 2.5, -3e2, true, false, null), "b\u0041/", List.of()),
                JsonReader.read(" {\"a\" : [1, 2.5, -3e2, true, false, null],\n\"b\\u0041\\/\":[]} "));
    }

    @ParameterizedTest
    @ValueSource(strings = {
        "", " ", "{", "[1", "[1,]", "{\"a\"}", "{a:1}", "{\"a\":1,}", "\"a", "\"\\x\"", "\"\\u12\"", "\"\\u12g4\"", "tru", "nul",
        "1 2", "--1", "1e", "99999999999999999999", "\"\n\"", "]", "+", "."
    })
    void whatIsNoJsonIsRefused(String text) {
        assertThrows(JsonReader.MalformedException.class, () -> JsonReader.read(text));
    }
}
