package io.samerack.broker;

/**
 * What the assignor of Streams groups counts since the broker started, as the MBean
 * {@code io.samerack:type=RackAwareTaskAssignor}. A plain plan is that of Kafka's {@code sticky}.
 */
public interface TaskAssignorMetricsMBean extends AssignorMetricsMBean {
    /**
     * Plain plans because this Kafka does not show the topics of tasks.
     *
     * @return a count
     */
    long getPlainPlansForUnknownTopics();

    /**
     * Plain plans because no broker with a replica of the topics has a rack.
     *
     * @return a count
     */
    long getPlainPlansForUnknownReplicaRacks();

    /**
     * Plain plans because no member sends a rack.
     *
     * @return a count
     */
    long getPlainPlansForUnknownMemberRacks();
}
