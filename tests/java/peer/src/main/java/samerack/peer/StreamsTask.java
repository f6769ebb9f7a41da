package samerack.peer;

import java.util.Set;
import org.apache.kafka.streams.processor.TaskId;
import org.apache.kafka.streams.processor.assignment.TaskInfo;
import org.apache.kafka.streams.processor.assignment.TaskTopicPartition;

/** A task of a question. */
record StreamsTask(TaskId id, boolean isStateful, Set<String> stateStoreNames, Set<TaskTopicPartition> topicPartitions)
        implements TaskInfo {
}
