package samerack.test;

import java.util.Map;
import org.apache.kafka.clients.consumer.ConsumerInterceptor;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.common.TopicPartition;

/** Prints every commit that a coordinator has confirmed, also those that the client makes by itself. */
public final class CommitTeller implements ConsumerInterceptor<byte[], byte[]> {

    private Events events = new Events();

    @Override
    public void onCommit(Map<TopicPartition, OffsetAndMetadata> offsets) {
        if (!offsets.isEmpty()) {
            events.committed(offsets);
        }
    }

    @Override
    public ConsumerRecords<byte[], byte[]> onConsume(ConsumerRecords<byte[], byte[]> records) {
        return records;
    }

    @Override
    public void configure(Map<String, ?> settings) {
        events = new Events(String.valueOf(settings.get("client.id")));
    }

    @Override
    public void close() {}
}
