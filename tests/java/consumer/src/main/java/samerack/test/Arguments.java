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
            "cooperative-sticky", "org.apache.kafka.clients.consumer.CooperativeStickyAssignor",
            "homegrown", HomegrownAssignor.class.getName());

    private static final Map<String, String> PLAIN = Map.of(
            "--bootstrap", "bootstrap.servers",
            "--group", "group.id",
            "--client-id", "client.id",
            "--rack", "client.rack",
            "--instance-id", "group.instance.id");

    /** One for each client id; a list of racks has one for each of them. */
    static List<Arguments> parseEach(String[] line) {
        String[] names = option(line, "--client-id").split(",");
        String[] racks = option(line, "--rack").split(",");
        List<Arguments> found = new ArrayList<>();
        for (int i = 0; i < names.length; i++) {
            Arguments one = parse(line);
            one.properties().put("client.id", names[i]);
            if (racks.length > 1) {
                one.properties().put("client.rack", racks[i]);
            }
            found.add(new Arguments(one.topics(), names[i], one.metricsPort(), one.properties()));
        }
        return found;
    }

    private static String option(String[] line, String name) {
        for (int i = 0; i + 1 < line.length; i += 2) {
            if (line[i].equals(name)) {
                return line[i + 1];
            }
        }
        return "";
    }

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
