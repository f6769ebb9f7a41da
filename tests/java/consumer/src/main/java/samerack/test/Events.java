package samerack.test;

import java.io.PrintStream;
import java.util.Collection;
import java.util.Comparator;
import java.util.Map;
import java.util.stream.Collectors;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.common.TopicPartition;

/** Prints events as JSON lines on standard output. */
final class Events {

    private final PrintStream out = System.out;
    private final String member;
    private int generation = -1;

    /** Of the one member of this process. */
    Events() {
        this("");
    }

    /** Of one of several members of this process: each line says which. */
    Events(String member) {
        this.member = member;
    }

    void plain(String kind) {
        print(kind, "");
    }

    void started(String clientId) {
        print("started", ",\"client\":\"java\",\"client_id\":" + quoted(clientId));
    }

    void error(String message) {
        print("error", ",\"message\":" + quoted(message));
    }

    /** The state of a Streams application. */
    void state(String now) {
        print("state", ",\"message\":" + quoted(now));
    }

    /** What a Streams application has counted of one partition until now. */
    void counted(String partition, long count) {
        print("counted", ",\"message\":" + quoted(partition) + ",\"count\":" + count);
    }

    void partitions(String kind, Collection<TopicPartition> partitions, int generation) {
        this.generation = Math.max(this.generation, generation);
        String list = partitions.stream()
                .sorted(Comparator.comparing(TopicPartition::topic).thenComparing(TopicPartition::partition))
                .map(partition -> "[" + quoted(partition.topic()) + "," + partition.partition() + "]")
                .collect(Collectors.joining(","));
        print(kind, ",\"partitions\":[" + list + "]" + (generation < 0 ? "" : ",\"generation\":" + generation));
    }

    /** Reported where it is another than the last one reported. */
    void generation(int now) {
        if (now > generation) {
            generation = now;
            print("joined", ",\"generation\":" + now);
        }
    }

    void committed(Map<TopicPartition, OffsetAndMetadata> offsets) {
        String list = offsets.entrySet().stream()
                .map(entry -> "[" + quoted(entry.getKey().topic()) + "," + entry.getKey().partition() + ","
                        + entry.getValue().offset() + "]")
                .collect(Collectors.joining(","));
        print("committed", ",\"offsets\":[" + list + "]");
    }

    void records(TopicPartition partition, long first, long last, long count) {
        print("records", ",\"topic\":" + quoted(partition.topic()) + ",\"partition\":" + partition.partition()
                + ",\"first\":" + first + ",\"last\":" + last + ",\"count\":" + count);
    }

    /** The tasks that an instance of a Streams application runs now, active ones and standbys. */
    void tasks(String active, String standby) {
        print("tasks", ",\"message\":" + quoted(active + ";" + standby));
    }

    /** Rebalances that an instance of a Streams application has been through, and the time of the last one to end. */
    void rebalanced(long total, double milliseconds) {
        print("rebalanced", ",\"count\":" + total + ",\"message\":" + quoted(Double.toString(milliseconds)));
    }

    /** What one kind of a Streams application's consumers received. */
    void statistics(String kind, Map<String, Long> brokers) {
        print("statistics", ",\"message\":" + quoted(kind) + statisticsOf(brokers));
    }

    void statistics(Map<String, Long> brokers) {
        print("statistics", statisticsOf(brokers));
    }

    private static String statisticsOf(Map<String, Long> brokers) {
        String list = brokers.entrySet().stream()
                .map(entry -> quoted(entry.getKey()) + ":" + entry.getValue())
                .collect(Collectors.joining(","));
        return ",\"brokers\":{" + list + "}";
    }

    private void print(String kind, String fields) {
        synchronized (out) { // one line at a time, whoever prints
            String clocks = ",\"ms\":" + System.currentTimeMillis() + ",\"ns\":" + System.nanoTime();
            String of = member.isEmpty() ? "" : ",\"member\":" + quoted(member);
            out.println("{\"event\":\"" + kind + "\"" + clocks + of + fields + "}");
            out.flush();
        }
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
