package io.samerack.streams;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.time.Duration;
import java.util.Map;
import org.apache.kafka.streams.processor.assignment.assignors.StickyTaskAssignor;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

/** What properties mean. */
class SettingsTest {
    @Test
    void withoutPropertiesTheAgentOfThisHostIsAsked() {
        Settings settings = Settings.of(Map.of("group.id", "orders"));
        assertEquals("orders", settings.application);
        assertEquals("http://127.0.0.1:9464", settings.url.toString());
        assertEquals(Duration.ofSeconds(2), settings.timeout);
        assertEquals(Duration.ofSeconds(30), settings.retry);
        assertNull(settings.assignor);
        assertInstanceOf(DefaultFallback.class, settings.fallback);
        assertEquals(Map.of(), settings.mistakes);
    }

    @ParameterizedTest
    @CsvSource({"http://[::1]:9464/,http://[::1]:9464", "unix:/run/agent.sock,unix:/run/agent.sock", "https://agent/under//,https://agent/under"})
    void anAddressMayHaveAPath(String given, String used) {
        assertEquals(used, Settings.of(Map.of(Settings.URL, given)).url.toString());
    }

    @ParameterizedTest
    @CsvSource({"''", "9464", "unix:agent.sock", "unix://agent/run", "http://", "http://a b", "ftp://agent", "http://agent?x=1", "http:agent", "unix:/a%00b", "http://agent:65536"})
    void whatIsNoAddressIsNotUsed(String given) {
        Settings settings = Settings.of(Map.of(Settings.URL, given));
        assertEquals(Settings.DEFAULT_URL, settings.url.toString());
        assertEquals(java.util.Set.of(Settings.URL), settings.mistakes.keySet());
    }

    @Test
    void theDeadlineIsShorterThanTheTimeBetweenTwoPolls() {
        Map<String, Object> tight = Map.of("max.poll.interval.ms", 1_500);
        assertEquals(Duration.ofMillis(1_499), Settings.of(tight).timeout);
        Settings wrong = Settings.of(Map.of("max.poll.interval.ms", "5000", Settings.TIMEOUT_MS, "5000"));
        assertEquals(Duration.ofSeconds(2), wrong.timeout);
        assertEquals(1, wrong.mistakes.size());
    }

    @Test
    void theFallbackIsAClassOrItsName() {
        Map<String, ?> byClass = Map.of(Settings.FALLBACK_CLASS, StickyTaskAssignor.class);
        Map<String, ?> byName = Map.of(Settings.FALLBACK_CLASS, StickyTaskAssignor.class.getName());
        assertInstanceOf(StickyTaskAssignor.class, Settings.of(byClass).fallback);
        assertInstanceOf(StickyTaskAssignor.class, Settings.of(byName).fallback);
    }

    @Test
    void aClassThatIsNoAssignorIsNotUsed() {
        Settings itself = Settings.of(Map.of(Settings.FALLBACK_CLASS, AgentTaskAssignor.class));
        assertTrue(itself.mistakes.get(Settings.FALLBACK_CLASS).contains("fall back to itself"));
        Settings settings = Settings.of(Map.of(Settings.FALLBACK_CLASS, "java.lang.String"));
        assertInstanceOf(DefaultFallback.class, settings.fallback);
        assertEquals(1, settings.mistakes.size());
    }
}
