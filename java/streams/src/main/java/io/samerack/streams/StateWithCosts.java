package io.samerack.streams;

import java.util.HashMap;
import java.util.Map;
import java.util.OptionalInt;
import java.util.Set;
import java.util.stream.Collectors;
import org.apache.kafka.streams.processor.TaskId;
import org.apache.kafka.streams.processor.assignment.ApplicationState;
import org.apache.kafka.streams.processor.assignment.AssignmentConfigs;
import org.apache.kafka.streams.processor.assignment.KafkaStreamsState;
import org.apache.kafka.streams.processor.assignment.ProcessId;
import org.apache.kafka.streams.processor.assignment.TaskInfo;
import org.apache.kafka.streams.processor.assignment.TaskTopicPartition;

/**
 * An application as TaskAssignmentUtils must see it to plan what Kafka Streams' default assignor plans.
 *
 * <p>The utility moves nothing for racks unless both costs are configured, even where its caller overrides them; the
 * default assignor has defaults of its own. It counts the changelogs of active tasks as traffic, which they only write;
 * the default assignor counts their sources. And to it a task whose stores are not logged is stateful.
 */
final class StateWithCosts implements ApplicationState {
    private final ApplicationState state;
    private final AssignmentConfigs configs;
    private final Map<TaskId, TaskInfo> tasks;

    /** Value of rack.aware.assignment.strategy with which racks do not count. */
    static final String NO_STRATEGY = "none";

    /**
     * Wraps an application.
     *
     * @param trafficCost of a partition that is read across racks, unless it is configured
     * @param nonOverlapCost of a task that moves, unless it is configured
     */
    StateWithCosts(ApplicationState state, int trafficCost, int nonOverlapCost) {
        this(state, withCosts(state.assignmentConfigs(), trafficCost, nonOverlapCost), new HashMap<>());
        state.allTasks().forEach((id, task) ->
                tasks.put(id, new PartialTask(task, Application.hasLoggedState(task), task.topicPartitions())));
    }

    private StateWithCosts(ApplicationState state, AssignmentConfigs configs, Map<TaskId, TaskInfo> tasks) {
        this.state = state;
        this.configs = configs;
        this.tasks = tasks;
    }

    /** Returns an application in which racks do not count. */
    static ApplicationState withoutRacks(ApplicationState state) {
        AssignmentConfigs given = state.assignmentConfigs();
        AssignmentConfigs configs =
                configs(given, NO_STRATEGY, given.rackAwareTrafficCost(), given.rackAwareNonOverlapCost());
        return new StateWithCosts(state, configs, state.allTasks());
    }

    private static AssignmentConfigs withCosts(AssignmentConfigs given, int trafficCost, int nonOverlapCost) {
        return configs(
                given,
                given.rackAwareAssignmentStrategy(),
                OptionalInt.of(given.rackAwareTrafficCost().orElse(trafficCost)),
                OptionalInt.of(given.rackAwareNonOverlapCost().orElse(nonOverlapCost)));
    }

    /** Returns the same application with nothing but the sources of its tasks. */
    StateWithCosts withSourcesOnly() {
        Map<TaskId, TaskInfo> found = new HashMap<>();
        tasks.forEach((id, task) -> found.put(id, new PartialTask(task, task.isStateful(), sourcesOf(task))));
        return new StateWithCosts(state, configs, found);
    }

    private static Set<TaskTopicPartition> sourcesOf(TaskInfo task) {
        return task.topicPartitions().stream().filter(TaskTopicPartition::isSource).collect(Collectors.toSet());
    }

    private static AssignmentConfigs configs(AssignmentConfigs given, String strategy, OptionalInt traffic, OptionalInt nonOverlap) {
        return new AssignmentConfigs(
                given.acceptableRecoveryLag(),
                given.maxWarmupReplicas(),
                given.numStandbyReplicas(),
                given.probingRebalanceIntervalMs(),
                given.rackAwareAssignmentTags(),
                traffic,
                nonOverlap,
                strategy);
    }

    @Override
    public Map<ProcessId, KafkaStreamsState> kafkaStreamsStates(boolean computeTaskLags) {
        return state.kafkaStreamsStates(computeTaskLags);
    }

    @Override
    public AssignmentConfigs assignmentConfigs() {
        return configs;
    }

    @Override
    public Map<TaskId, TaskInfo> allTasks() {
        return tasks;
    }

    /** A task of which only a part counts. */
    private record PartialTask(TaskInfo task, boolean isStateful, Set<TaskTopicPartition> topicPartitions)
            implements TaskInfo {
        @Override
        public TaskId id() {
            return task.id();
        }

        @Override
        public Set<String> stateStoreNames() {
            return task.stateStoreNames();
        }
    }
}
