package samerack.test;

import java.lang.management.ManagementFactory;
import java.nio.ByteBuffer;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.TreeMap;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.stream.Collectors;
import javax.management.JMException;
import javax.management.MBeanServer;
import javax.management.ObjectName;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.common.serialization.StringSerializer;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.TaskMetadata;
import org.apache.kafka.streams.ThreadMetadata;
import org.apache.kafka.streams.Topology;
import org.apache.kafka.streams.errors.StreamsUncaughtExceptionHandler;
import org.apache.kafka.streams.processor.api.ContextualProcessor;
import org.apache.kafka.streams.processor.api.ProcessorContext;
import org.apache.kafka.streams.processor.api.Record;
import org.apache.kafka.streams.processor.api.RecordMetadata;
import org.apache.kafka.streams.state.KeyValueStore;
import org.apache.kafka.streams.state.Stores;

/**
 * A stateful Kafka Streams application whose output shows each record that is lost, doubled or counted on wrong state.
 *
 * <p>It reads its topics, keeps the last records and a count of each partition in a store with a changelog, and writes one
 * record for each that it reads: the partition as the key, the new count and the offset as the value. Client ids and
 * racks separated by commas are several instances in one process. Its property beyond Kafka's is output.topic.
 */
public final class StreamsLedger {

    private static final String OUTPUT = "output.topic";
    private static final int KEPT = 32;
    private static final String STORE = "ledger";

    private final Events events;
    private final KafkaStreams streams;
    private String tasks = "";
    private long rebalances;

    private StreamsLedger(Arguments arguments, Events events, CountDownLatch ended) {
        this.events = events;
        streams = new KafkaStreams(topology(arguments), properties(arguments));
        streams.setStateListener((now, before) -> events.state(now.name()));
        streams.setUncaughtExceptionHandler(error -> {
            events.error(error.toString());
            ended.countDown();
            return StreamsUncaughtExceptionHandler.StreamThreadExceptionResponse.SHUTDOWN_CLIENT;
        });
    }

    /**
     * Runs until SIGTERM.
     *
     * @param line the options that the consumers take too; the group is the application
     */
    public static void main(String[] line) throws InterruptedException {
        List<Arguments> instances = Arguments.parseEach(line);
        CountDownLatch ended = new CountDownLatch(1);
        CountDownLatch closed = new CountDownLatch(1);
        // SIGTERM runs the hook; the process ends when the hook returns, so it waits for the application to close.
        Runtime.getRuntime().addShutdownHook(new Thread(() -> {
            ended.countDown();
            try {
                closed.await(30, TimeUnit.SECONDS);
            } catch (InterruptedException e) {
                Thread.currentThread().interrupt();
            }
        }));
        List<StreamsLedger> ledgers = instances.stream()
                .map(one -> new StreamsLedger(one, new Events(instances.size() == 1 ? "" : one.clientId()), ended))
                .toList();
        instances.forEach(one -> new Events(instances.size() == 1 ? "" : one.clientId()).started(one.clientId()));
        ledgers.forEach(ledger -> ledger.streams.start());
        for (int round = 0; !ended.await(100, TimeUnit.MILLISECONDS); round++) {
            for (StreamsLedger ledger : ledgers) {
                ledger.read(round % 5 == 0);
            }
        }
        ledgers.forEach(ledger -> ledger.streams.close());
        ledgers.get(0).events.plain("closed");
        closed.countDown();
    }

    private static Topology topology(Arguments arguments) {
        String output = (String) arguments.properties().remove(OUTPUT);
        return new Topology()
                .addSource("read", new ByteArrayDeserializer(), new ByteArrayDeserializer(),
                        arguments.topics().toArray(new String[0]))
                .addProcessor("count", Counting::new, "read")
                .addStateStore(
                        Stores.keyValueStoreBuilder(
                                Stores.inMemoryKeyValueStore(STORE), Serdes.String(), Serdes.ByteArray()),
                        "count")
                .addSink("write", output, new StringSerializer(), new StringSerializer(), "count");
    }

    private static Properties properties(Arguments arguments) {
        Properties properties = new Properties();
        arguments.properties().forEach((key, value) -> {
            if (!key.toString().endsWith(".deserializer")) { // Streams has its own
                properties.put(key.equals("group.id") ? "application.id" : key.toString(), value);
            }
        });
        properties.remove("auto.commit.interval.ms");
        properties.put("state.dir", properties.get("state.dir") + "/" + arguments.clientId());
        return properties;
    }

    /** Prints what is new: tasks, rebalances, and bytes where they are wanted. */
    private void read(boolean withBytes) {
        String active = tasksOf(false);
        String now = active + ";" + tasksOf(true);
        if (!now.equals(tasks)) {
            tasks = now;
            events.tasks(active, tasksOf(true));
        }
        long total = 0;
        double last = 0;
        Map<String, Long> sources = new TreeMap<>();
        Map<String, Long> changelogs = new TreeMap<>();
        for (var entry : streams.metrics().entrySet()) {
            String name = entry.getKey().name();
            if (name.equals("rebalance-total")) {
                total += ((Double) entry.getValue().metricValue()).longValue();
            } else if (name.equals("rebalance-latency-max")) {
                last = Math.max(last, (Double) entry.getValue().metricValue());
            } else if (name.equals("incoming-byte-total") && entry.getKey().group().equals("consumer-node-metrics")) {
                long node = Long.parseLong(entry.getKey().tags().get("node-id").substring("node-".length()));
                if (node > 0 && node < 1_000_000) { // the coordinator's connection has an id of its own
                    boolean restores = entry.getKey().tags().get("client-id").endsWith("-restore-consumer");
                    (restores ? changelogs : sources).merge(
                            Long.toString(node), ((Double) entry.getValue().metricValue()).longValue(), Long::sum);
                }
            }
        }
        if (total > rebalances) {
            rebalances = total;
            events.rebalanced(total, last);
        }
        if (withBytes) {
            events.statistics("sources", sources);
            events.statistics("changelogs", changelogs);
            beans();
        }
    }

    private String tasksOf(boolean standby) {
        return streams.metadataForLocalThreads().stream()
                .flatMap(thread -> tasksOf(thread, standby))
                .map(task -> task.taskId().toString())
                .sorted()
                .collect(Collectors.joining(","));
    }

    private static java.util.stream.Stream<TaskMetadata> tasksOf(ThreadMetadata thread, boolean standby) {
        return (standby ? thread.standbyTasks() : thread.activeTasks()).stream();
    }

    /** Prints what samerack's assignor counts, where it is in use. */
    private void beans() {
        MBeanServer server = ManagementFactory.getPlatformMBeanServer();
        try {
            for (ObjectName name : server.queryNames(new ObjectName("io.samerack:*"), null)) {
                StringBuilder text = new StringBuilder();
                for (var attribute : server.getMBeanInfo(name).getAttributes()) {
                    text.append(attribute.getName()).append('=').append(server.getAttribute(name, attribute.getName())).append(' ');
                }
                events.counted(text.toString().trim(), (Long) server.getAttribute(name, "Assignments"));
            }
        } catch (JMException e) {
            events.error(e.toString());
        }
    }

    /** Counts, keeps and hands on. */
    private static final class Counting extends ContextualProcessor<byte[], byte[], String, String> {

        private KeyValueStore<String, byte[]> store;

        @Override
        public void init(ProcessorContext<String, String> context) {
            super.init(context);
            store = context.getStateStore(STORE);
        }

        @Override
        public void process(Record<byte[], byte[]> record) {
            RecordMetadata read = context().recordMetadata().orElseThrow();
            String partition = new TopicPartition(read.topic(), read.partition()).toString();
            byte[] counted = store.get(partition);
            long count = counted == null ? 1 : ByteBuffer.wrap(counted).getLong() + 1;
            store.put(partition, ByteBuffer.allocate(Long.BYTES).putLong(count).array());
            store.put(partition + "/" + read.offset() % KEPT, record.value());
            context().forward(new Record<>(partition, count + " " + read.offset(), record.timestamp()));
        }
    }
}
