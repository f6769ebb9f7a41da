package samerack.test;

import java.util.Map;
import java.util.Properties;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.errors.StreamsUncaughtExceptionHandler;
import org.apache.kafka.streams.kstream.Consumed;

/** A Kafka Streams application without state: reads its topics until SIGTERM and prints what happens to it. */
public final class StreamsMember {

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
        StreamsBuilder builder = new StreamsBuilder();
        builder.stream(arguments.topics(), Consumed.with(Serdes.ByteArray(), Serdes.ByteArray()))
                .foreach((key, value) -> {});
        CountDownLatch ended = new CountDownLatch(1);
        CountDownLatch closed = new CountDownLatch(1);
        try (KafkaStreams streams = new KafkaStreams(builder.build(), properties(arguments))) {
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
