package samerack.peer;

import java.util.Optional;
import java.util.Set;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.streams.processor.assignment.TaskTopicPartition;

/** A partition that a task of a question reads. */
record StreamsPartition(TopicPartition topicPartition, boolean isSource, boolean isChangelog,
                        Optional<Set<String>> rackIds) implements TaskTopicPartition {
}
