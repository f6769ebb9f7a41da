package samerack.test;

import java.time.Duration;
import java.util.Collection;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.function.Function;
import java.util.stream.Collectors;
import org.apache.kafka.clients.consumer.ConsumerConfig;
import org.apache.kafka.clients.consumer.ConsumerRebalanceListener;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.consumer.SubscriptionPattern;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.Metric;
import org.apache.kafka.common.MetricName;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.WakeupException;

/** A group member on Kafka's Java client: consumes until SIGTERM and prints what happens to it. */
public final class Member {

    private static final Duration MOST_WAIT = Duration.ofSeconds(2);

    private final Events events;

    private Member(Events events) {
        this.events = events;
    }

    /**
     * Consumes until SIGTERM. Client ids and racks separated by commas are several members, each on a thread of its own.
     *
     * @param line the options that the Python members take too
     */
    public static void main(String[] line) {
        List<Arguments> members = Arguments.parseEach(line);
        if (members.size() == 1) {
            new Member(new Events(members.get(0).clientId())).consume(members.get(0));
            return;
        }
        for (Arguments one : members) {
            new Thread(() -> new Member(new Events(one.clientId())).consume(one), one.clientId()).start();
        }
    }

    private void consume(Arguments arguments) {
        CountDownLatch closed = new CountDownLatch(1);
        arguments.properties().put(ConsumerConfig.INTERCEPTOR_CLASSES_CONFIG, CommitTeller.class.getName());
        try (KafkaConsumer<byte[], byte[]> consumer = new KafkaConsumer<>(arguments.properties())) {
            // SIGTERM runs the hook; the process ends when the hook returns, so it waits for the consumer to close.
            Runtime.getRuntime().addShutdownHook(new Thread(() -> {
                consumer.wakeup();
                try {
                    closed.await(15, TimeUnit.SECONDS);
                } catch (InterruptedException e) {
                    Thread.currentThread().interrupt();
                }
            }));
            arguments.metricsPort().ifPresent(port -> MetricsPage.open(port, consumer::metrics));
            events.started(arguments.clientId());
            subscribe(consumer, arguments.topics());
            long reported = System.nanoTime();
            while (true) {
                print(consumer.poll(Duration.ofMillis(50)));
                events.generation(consumer.groupMetadata().generationId());
                if (System.nanoTime() - reported > TimeUnit.SECONDS.toNanos(1)) {
                    reported = System.nanoTime();
                    events.statistics(received(consumer.metrics()));
                }
            }
        } catch (WakeupException e) {
            // SIGTERM
        } catch (RuntimeException e) {
            events.error(e.toString());
            throw e;
        } finally {
            events.plain("closed");
            closed.countDown();
        }
    }

    /** A topic that begins with ^ is an expression, which brokers resolve (KIP-848), as librdkafka has it. */
    private void subscribe(KafkaConsumer<byte[], byte[]> consumer, List<String> topics) {
        if (topics.get(0).startsWith("^")) {
            consumer.subscribe(new SubscriptionPattern(topics.get(0)), new Listener(consumer));
        } else {
            consumer.subscribe(topics, new Listener(consumer));
        }
    }

    private void print(ConsumerRecords<byte[], byte[]> records) {
        for (TopicPartition partition : records.partitions()) {
            List<ConsumerRecord<byte[], byte[]>> batch = records.records(partition);
            long first = batch.get(0).offset();
            long last = first;
            long count = 0;
            for (ConsumerRecord<byte[], byte[]> record : batch) {
                if (count > 0 && record.offset() != last + 1) {
                    events.records(partition, first, last, count);
                    first = record.offset();
                    count = 0;
                }
                last = record.offset();
                count++;
            }
            events.records(partition, first, last, count);
        }
    }

    /** Broker id to bytes received; the coordinator's connection counts under an id of its own and is left out. */
    private static Map<String, Long> received(Map<MetricName, ? extends Metric> metrics) {
        Map<String, Long> brokers = new TreeMap<>();
        metrics.forEach((name, metric) -> {
            if (name.group().equals("consumer-node-metrics") && name.name().equals("incoming-byte-total")) {
                long id = Long.parseLong(name.tags().get("node-id").substring("node-".length()));
                if (id > 0 && id < 1_000_000) {
                    brokers.put(Long.toString(id), ((Double) metric.metricValue()).longValue());
                }
            }
        });
        return brokers;
    }

    private final class Listener implements ConsumerRebalanceListener {

        private final KafkaConsumer<byte[], byte[]> consumer;

        Listener(KafkaConsumer<byte[], byte[]> consumer) {
            this.consumer = consumer;
        }

        @Override
        public void onPartitionsAssigned(Collection<TopicPartition> partitions) {
            events.partitions("assigned", partitions, generation());
        }

        @Override
        public void onPartitionsRevoked(Collection<TopicPartition> partitions) {
            // The client commits by itself only before it joins, and in a cooperative rebalance goes on reading after that.
            try {
                consumer.commitSync(
                        partitions.stream().collect(Collectors.toMap(
                                Function.identity(), p -> new OffsetAndMetadata(consumer.position(p, MOST_WAIT)))),
                        MOST_WAIT);
            } catch (KafkaException e) {
                events.error(e.toString()); // whoever is next reads from the commit before
            }
            events.partitions("revoked", partitions, generation());
        }

        @Override
        public void onPartitionsLost(Collection<TopicPartition> partitions) {
            events.partitions("lost", partitions, generation());
        }

        private int generation() {
            return consumer.groupMetadata().generationId();
        }
    }
}
