package io.samerack.broker;

import javax.management.NotCompliantMBeanException;
import javax.management.StandardMBean;

/** Counts what the assignor of Streams groups does. */
final class TaskAssignorMetrics extends AssignorMetrics implements TaskAssignorMetricsMBean {
    static final String NAME = "io.samerack:type=RackAwareTaskAssignor";
    static final TaskAssignorMetrics OF_BROKER = new TaskAssignorMetrics();

    private TaskAssignorMetrics() {
        super(NAME);
    }

    @Override
    StandardMBean bean() throws NotCompliantMBeanException {
        return new StandardMBean(this, TaskAssignorMetricsMBean.class);
    }

    @Override
    public long getPlainPlansForUnknownTopics() {
        return plainPlans(Cause.UNKNOWN_TOPICS);
    }

    @Override
    public long getPlainPlansForUnknownReplicaRacks() {
        return plainPlans(Cause.UNKNOWN_REPLICA_RACKS);
    }

    @Override
    public long getPlainPlansForUnknownMemberRacks() {
        return plainPlans(Cause.UNKNOWN_MEMBER_RACKS);
    }
}
