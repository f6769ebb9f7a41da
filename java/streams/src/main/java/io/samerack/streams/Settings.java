package io.samerack.streams;

import java.net.URI;
import java.net.URISyntaxException;
import java.nio.file.InvalidPathException;
import java.nio.file.Path;
import java.time.Duration;
import java.util.LinkedHashMap;
import java.util.Map;
import org.apache.kafka.streams.processor.assignment.TaskAssignor;

/**
 * The assignor's properties, which stand in the configuration of the application beside {@code task.assignor.class}.
 *
 * <p>A wrong value never stops an application: the default is used instead, the mistake is logged as an error, and
 * {@code ConfigurationErrors} of {@link AssignorMetricsMBean} counts it.
 */
final class Settings {
    /** Where the agent listens: {@code http://HOST:PORT}, or {@code unix:/PATH} of its socket. */
    static final String URL = "samerack.url";

    static final String UNIX = "unix";
    /** Milliseconds in which the agent has to answer, from the moment it is asked until the whole plan is here. */
    static final String TIMEOUT_MS = "samerack.timeout.ms";
    /** Milliseconds in which the agent is not asked again after it failed. */
    static final String RETRY_MS = "samerack.retry.ms";
    /** Which of the agent's assignors plans: {@code ha} or {@code sticky}; unless set, the agent decides. */
    static final String ASSIGNOR = "samerack.assignor";
    /** Class of the {@link TaskAssignor} that plans where the agent does not. */
    static final String FALLBACK_CLASS = "samerack.fallback.class";

    static final String DEFAULT_URL = "http://127.0.0.1:9464";
    static final long DEFAULT_TIMEOUT_MS = 2_000;
    static final long DEFAULT_RETRY_MS = 30_000;

    private static final long MAX_RETRY_MS = 86_400_000; // a day
    private static final int MAX_PORT = 65_535;

    private static final String MAX_POLL_INTERVAL_MS = "max.poll.interval.ms";
    /** Kafka Streams' own default of max.poll.interval.ms (StreamsConfig, Kafka 4.3). */
    private static final long DEFAULT_MAX_POLL_INTERVAL_MS = 300_000;

    /** The application's id. */
    final String application;
    /** Where the agent listens, without a slash at the end. */
    final URI url;
    final Duration timeout;
    final Duration retry;
    /** Null where the agent decides. */
    final String assignor;
    /** Makes the assignor that plans where the agent does not. */
    final TaskAssignor fallback;
    /** What was wrong, by property. */
    final Map<String, String> mistakes;

    private Settings(Map<String, ?> properties) {
        mistakes = new LinkedHashMap<>();
        application = application(properties);
        url = url(properties);
        timeout = Duration.ofMillis(timeout(properties));
        retry = Duration.ofMillis(number(properties, RETRY_MS, DEFAULT_RETRY_MS, 0, MAX_RETRY_MS));
        assignor = assignor(properties);
        fallback = fallback(properties);
    }

    /** Reads the properties; wrong ones have their defaults, and are in {@link #mistakes}. */
    static Settings of(Map<String, ?> properties) {
        return new Settings(properties);
    }

    private static String application(Map<String, ?> properties) {
        Object given = properties.get("application.id");
        Object group = properties.get("group.id"); // Kafka Streams hands on a consumer's properties
        return given != null ? given.toString() : group != null ? group.toString() : "";
    }

    private URI url(Map<String, ?> properties) {
        Object given = properties.get(URL);
        String text = given == null ? DEFAULT_URL : given.toString().trim();
        try {
            URI found = new URI(text);
            boolean plain = found.getRawQuery() == null && found.getRawFragment() == null;
            boolean isPath = found.getRawAuthority() == null && found.getPath() != null && found.getPath().startsWith("/");
            if (UNIX.equals(found.getScheme()) && isPath && plain) {
                Path.of(found.getPath()); // throws where it has a character that no path may have
                return found;
            }
            boolean isWeb = "http".equals(found.getScheme()) || "https".equals(found.getScheme());
            if (isWeb && found.getHost() != null && found.getPort() <= MAX_PORT && plain) {
                return new URI(text.replaceFirst("/+$", ""));
            }
        } catch (URISyntaxException | InvalidPathException none) {
            // said below
        }
        mistakes.put(URL, "\"" + given + "\" is no address such as " + DEFAULT_URL);
        return URI.create(DEFAULT_URL);
    }

    private long timeout(Map<String, ?> properties) {
        long interval = DEFAULT_MAX_POLL_INTERVAL_MS;
        try {
            interval = Long.parseLong(String.valueOf(properties.get(MAX_POLL_INTERVAL_MS)));
        } catch (NumberFormatException notSet) {
            // Kafka Streams itself refuses a wrong value
        }
        // beyond it the group would think that the thread is dead
        long max = Math.max(1, interval - 1);
        return number(properties, TIMEOUT_MS, Math.min(DEFAULT_TIMEOUT_MS, max), 1, max);
    }

    private String assignor(Map<String, ?> properties) {
        Object given = properties.get(ASSIGNOR);
        String text = given == null ? "" : given.toString().trim();
        if (text.isEmpty() || text.equals("ha") || text.equals("sticky")) {
            return text.isEmpty() ? null : text;
        }
        mistakes.put(ASSIGNOR, "\"" + given + "\" is neither ha nor sticky");
        return null;
    }

    private TaskAssignor fallback(Map<String, ?> properties) {
        Object given = properties.get(FALLBACK_CLASS);
        if (given == null || given.toString().isBlank()) {
            return new DefaultFallback();
        }
        try {
            ClassLoader loader = Thread.currentThread().getContextClassLoader();
            Class<?> type = given instanceof Class<?> named
                    ? named
                    : Class.forName(
                            given.toString().trim(), true, loader != null ? loader : Settings.class.getClassLoader());
            if (type == AgentTaskAssignor.class) {
                throw new IllegalArgumentException("it would fall back to itself");
            }
            TaskAssignor made = type.asSubclass(TaskAssignor.class).getDeclaredConstructor().newInstance();
            made.configure(properties);
            return made;
        } catch (Throwable unusable) {
            mistakes.put(FALLBACK_CLASS, "\"" + given + "\" is no usable task assignor: " + unusable);
            return new DefaultFallback();
        }
    }

    private long number(Map<String, ?> properties, String name, long otherwise, long min, long max) {
        Object given = properties.get(name);
        if (given == null) {
            return otherwise;
        }
        try {
            long value = Long.parseLong(given.toString().trim());
            if (value >= min && value <= max) {
                return value;
            }
        } catch (NumberFormatException noNumber) {
            // said below
        }
        mistakes.put(name, "\"" + given + "\" is no whole number from " + min + " to " + max);
        return otherwise;
    }
}
