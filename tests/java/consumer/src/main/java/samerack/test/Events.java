package samerack.test;

import java.io.PrintStream;
import java.util.Collection;
import java.util.Comparator;
import java.util.Map;
import java.util.stream.Collectors;
import org.apache.kafka.common.TopicPartition;

/** Prints events as JSON lines on standard output. */
final class Events {

    private final PrintStream out = System.out;

    void plain(String kind) {
        print(kind, "");
    }

    void started(String clientId) {
        print("started", ",\"client\":\"java\",\"client_id\":" + quoted(clientId));
    }

    void error(String message) {
        print("error", ",\"message\":" + quoted(message));
    }

    void partitions(String kind, Collection<TopicPartition> partitions) {
        String list = partitions.stream()
                .sorted(Comparator.comparing(TopicPartition::topic).thenComparing(TopicPartition::partition))
                .map(partition -> "[" + quoted(partition.topic()) + "," + partition.partition() + "]")
                .collect(Collectors.joining(","));
        print(kind, ",\"partitions\":[" + list + "]");
    }

    void records(TopicPartition partition, long first, long last, long count) {
        print("records", ",\"topic\":" + quoted(partition.topic()) + ",\"partition\":" + partition.partition()
                + ",\"first\":" + first + ",\"last\":" + last + ",\"count\":" + count);
    }

    void statistics(Map<String, Long> brokers) {
        String list = brokers.entrySet().stream()
                .map(entry -> quoted(entry.getKey()) + ":" + entry.getValue())
                .collect(Collectors.joining(","));
        print("statistics", ",\"brokers\":{" + list + "}");
    }

    private synchronized void print(String kind, String fields) {
        out.println("{\"event\":\"" + kind + "\",\"ms\":" + System.currentTimeMillis() + fields + "}");
        out.flush();
    }

    private static String quoted(String text) {
        StringBuilder quoted = new StringBuilder("\"");
        for (char c : String.valueOf(text).toCharArray()) {
            if (c == '"' || c == '\\') {
                quoted.append('\\').append(c);
            } else if (c < ' ') {
                quoted.append(String.format("\\u%04x", (int) c));
            } else {
                quoted.append(c);
            }
        }
        return quoted.append('"').toString();
    }
}
