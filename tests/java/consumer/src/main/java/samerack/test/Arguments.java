package samerack.test;

import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Properties;

/** The command line, the same as the Python members take, turned into a consumer's properties. */
record Arguments(List<String> topics, String clientId, Optional<Integer> metricsPort, Properties properties) {

    /** No property of Kafka's: where to show the client's metrics. */
    private static final String METRICS_PORT = "metrics.port";

    private static final Map<String, String> ASSIGNORS = Map.of(
            "range", "org.apache.kafka.clients.consumer.RangeAssignor",
            "roundrobin", "org.apache.kafka.clients.consumer.RoundRobinAssignor",
            "sticky", "org.apache.kafka.clients.consumer.StickyAssignor",
            "cooperative-sticky", "org.apache.kafka.clients.consumer.CooperativeStickyAssignor");

    private static final Map<String, String> PLAIN = Map.of(
            "--bootstrap", "bootstrap.servers",
            "--group", "group.id",
            "--client-id", "client.id",
            "--rack", "client.rack",
            "--instance-id", "group.instance.id");

    static Arguments parse(String[] line) {
        Properties properties = new Properties();
        properties.put("auto.offset.reset", "earliest");
        properties.put("auto.commit.interval.ms", "1000");
        properties.put("key.deserializer", "org.apache.kafka.common.serialization.ByteArrayDeserializer");
        properties.put("value.deserializer", "org.apache.kafka.common.serialization.ByteArrayDeserializer");
        List<String> topics = List.of();
        for (int i = 0; i + 1 < line.length; i += 2) {
            String value = line[i + 1];
            switch (line[i]) {
                case "--topics" -> topics = List.of(value.split(","));
                case "--assignor" -> properties.put("partition.assignment.strategy", assignors(value));
                case "--property" -> {
                    int equals = value.indexOf('=');
                    properties.put(value.substring(0, equals), value.substring(equals + 1));
                }
                default -> {
                    String key = PLAIN.get(line[i]);
                    if (key == null) {
                        throw new IllegalArgumentException("unknown option " + line[i]);
                    }
                    properties.put(key, value);
                }
            }
        }
        Optional<Integer> port = Optional.ofNullable(properties.remove(METRICS_PORT)).map(one -> Integer.valueOf(one.toString()));
        return new Arguments(topics, properties.getProperty("client.id"), port, properties);
    }

    /** Short names become classes; anything else is taken for a class. */
    private static String assignors(String names) {
        List<String> classes = new ArrayList<>();
        for (String name : names.split(",")) {
            classes.add(ASSIGNORS.getOrDefault(name, name));
        }
        return String.join(",", classes);
    }
}
