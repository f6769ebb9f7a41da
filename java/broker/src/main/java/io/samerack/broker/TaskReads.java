package io.samerack.broker;

import java.util.Collection;
import java.util.HashSet;
import java.util.List;
import java.util.Optional;
import java.util.Set;
import org.apache.kafka.coordinator.common.runtime.CoordinatorMetadataImage;
import org.apache.kafka.coordinator.group.api.streams.assignor.TopologyDescriber;
import org.apache.kafka.coordinator.group.streams.TopologyMetadata;
import org.apache.kafka.coordinator.group.streams.topics.ConfiguredSubtopology;

/**
 * How many partitions each task reads across racks, by rack of its process.
 *
 * <p>The interface (KIP-1357) has neither topics nor racks of replicas. The object behind it has: the coordinator's own
 * {@link TopologyMetadata}, of the very metadata on which it decides. That class is none of Kafka's interfaces, and another
 * version may have another one: then nothing is known, and {@link UnknownException} says so.
 */
final class TaskReads {
    /** By task and rack: partitions of its sources and repartition topics without a replica there. */
    final int[][] inputs;
    /** By task and rack: partitions of its changelogs without a replica there, which standbys read. */
    final int[][] changelogs;

    private boolean anyRack;

    private TaskReads(int tasks, int racks) {
        inputs = new int[tasks][racks];
        changelogs = new int[tasks][racks];
    }

    /** Returns that no task reads anything across racks. */
    static TaskReads none(TaskGroup group) {
        return new TaskReads(group.tasks(), group.racks.length);
    }

    /**
     * Counts the partitions.
     *
     * @throws UnknownException racks of all members, of all replicas, or the topics of tasks are not known
     */
    static TaskReads of(TaskGroup group, TopologyDescriber describer) {
        if (group.racks.length == 0) {
            throw new UnknownException(
                    AssignorMetrics.Cause.UNKNOWN_MEMBER_RACKS, "no member sends a rack; set client.rack in the application");
        }
        TaskReads reads = none(group);
        try {
            reads.count(group, (TopologyMetadata) describer);
        } catch (LinkageError | ClassCastException other) {
            throw new UnknownException(
                    AssignorMetrics.Cause.UNKNOWN_TOPICS, "this Kafka hides the topics of tasks, where 4.4 has them: " + other);
        }
        if (!reads.anyRack) {
            throw new UnknownException(
                    AssignorMetrics.Cause.UNKNOWN_REPLICA_RACKS, "no replica has a rack; set broker.rack in the brokers");
        }
        return reads;
    }

    private void count(TaskGroup group, TopologyMetadata topology) {
        for (int index = 0; index < group.subtopologies.length; index++) {
            ConfiguredSubtopology subtopology = topology.subtopologyMap().get(group.subtopologies[index]);
            Set<String> sources = new HashSet<>(subtopology.sourceTopics());
            sources.addAll(subtopology.repartitionSourceTopics().keySet());
            count(group, index, topology.metadataImage(), sources, inputs);
            count(group, index, topology.metadataImage(), subtopology.stateChangelogTopics().keySet(), changelogs);
        }
    }

    private void count(
            TaskGroup group, int index, CoordinatorMetadataImage image, Collection<String> topics, int[][] counts) {
        for (String topic : topics) {
            Optional<CoordinatorMetadataImage.TopicMetadata> found = image.topicMetadata(topic);
            int partitions = found.isEmpty() ? 0 : found.get().partitionCount();
            for (int task = group.first[index]; task < group.first[index + 1] && task - group.first[index] < partitions; task++) {
                List<String> racks = found.get().partitionRacks(task - group.first[index]);
                anyRack |= !racks.isEmpty();
                for (int rack = 0; rack < group.racks.length && !racks.isEmpty(); rack++) {
                    counts[task][rack] += racks.contains(group.racks[rack]) ? 0 : 1;
                }
            }
        }
    }

    /** Says why the plan cannot be one by racks. */
    static final class UnknownException extends RuntimeException {
        private static final long serialVersionUID = 1L;

        final transient AssignorMetrics.Cause cause;

        UnknownException(AssignorMetrics.Cause cause, String why) {
            super(why, null, false, false);
            this.cause = cause;
        }
    }
}
