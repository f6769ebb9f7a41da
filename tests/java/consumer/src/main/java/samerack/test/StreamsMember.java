package samerack.test;

import java.util.Map;
import java.util.Properties;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.errors.StreamsUncaughtExceptionHandler;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.Grouped;
import org.apache.kafka.streams.kstream.KStream;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.processor.api.ContextualProcessor;
import org.apache.kafka.streams.processor.api.Record;
import org.apache.kafka.streams.processor.api.RecordMetadata;
import org.apache.kafka.streams.state.Stores;

/**
 * A Kafka Streams application: reads its topics until SIGTERM and prints what happens to it.
 *
 * <p>It keeps no state unless the property `counts` is true. Then it counts the records of each partition, in a store
 * with a changelog and behind a repartition topic, and prints each record that it reads and each count.
 */
public final class StreamsMember {

    /** No property of Kafka's: whether to count. */
    private static final String COUNTS = "counts";

    private static final Map<String, String> NAMES = Map.of(
            "group.id", "application.id",
            "auto.commit.interval.ms", "commit.interval.ms");

    private StreamsMember() {}

    /**
     * Reads until SIGTERM.
     *
     * @param line the options that the consumers take too; the group is the application
     */
    public static void main(String[] line) throws InterruptedException {
        Arguments arguments = Arguments.parse(line);
        Events events = new Events();
        boolean counts = Boolean.parseBoolean((String) arguments.properties().remove(COUNTS));
        StreamsBuilder builder = new StreamsBuilder();
        KStream<byte[], byte[]> records =
                builder.stream(arguments.topics(), Consumed.with(Serdes.ByteArray(), Serdes.ByteArray()));
        if (counts) {
            count(records, events);
        } else {
            records.foreach((key, value) -> {});
        }
        CountDownLatch ended = new CountDownLatch(1);
        CountDownLatch closed = new CountDownLatch(1);
        try (KafkaStreams streams = new KafkaStreams(builder.build(), properties(arguments))) {
            streams.setStateListener((now, before) -> events.state(now.name()));
            streams.setUncaughtExceptionHandler(error -> {
                events.error(error.toString());
                ended.countDown();
                return StreamsUncaughtExceptionHandler.StreamThreadExceptionResponse.SHUTDOWN_CLIENT;
            });
            // SIGTERM runs the hook; the process ends when the hook returns, so it waits for the application to close.
            Runtime.getRuntime().addShutdownHook(new Thread(() -> {
                ended.countDown();
                try {
                    closed.await(15, TimeUnit.SECONDS);
                } catch (InterruptedException e) {
                    Thread.currentThread().interrupt();
                }
            }));
            events.started(arguments.clientId());
            streams.start();
            ended.await();
        } finally {
            events.plain("closed");
            closed.countDown();
        }
    }

    /** The state is in memory: nothing here is about RocksDB, which is left out of the jar. */
    private static void count(KStream<byte[], byte[]> records, Events events) {
        records.process(() -> new PartitionOf(events))
                .groupByKey(Grouped.with("partitions", Serdes.String(), Serdes.ByteArray()))
                .count(Materialized.<String, Long>as(Stores.inMemoryKeyValueStore("counts"))
                        .withKeySerde(Serdes.String())
                        .withValueSerde(Serdes.Long())
                        .withCachingDisabled())
                .toStream()
                .foreach((partition, count) -> events.counted(partition, count));
    }

    /** Prints each record, and hands it on with the name of its partition as the key. */
    private static final class PartitionOf extends ContextualProcessor<byte[], byte[], String, byte[]> {

        private final Events events;

        PartitionOf(Events events) {
            this.events = events;
        }

        @Override
        public void process(Record<byte[], byte[]> record) {
            RecordMetadata read = context().recordMetadata().orElseThrow();
            TopicPartition partition = new TopicPartition(read.topic(), read.partition());
            events.records(partition, read.offset(), read.offset(), 1);
            context().forward(record.withKey(partition.toString()));
        }
    }

    private static Properties properties(Arguments arguments) {
        Properties properties = new Properties();
        arguments.properties().forEach((key, value) -> {
            if (!key.toString().endsWith(".deserializer")) { // Streams has its own
                properties.put(NAMES.getOrDefault(key.toString(), key.toString()), value);
            }
        });
        return properties;
    }
}
