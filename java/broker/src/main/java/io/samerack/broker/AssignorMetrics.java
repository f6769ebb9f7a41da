package io.samerack.broker;

import java.lang.management.ManagementFactory;
import java.util.EnumMap;
import java.util.Map;
import java.util.concurrent.atomic.AtomicLong;
import java.util.concurrent.atomic.LongAccumulator;
import javax.management.InstanceAlreadyExistsException;
import javax.management.JMException;
import javax.management.NotCompliantMBeanException;
import javax.management.ObjectName;
import javax.management.StandardMBean;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Counts what the assignor does, and logs each cause of a plain plan once.
 *
 * <p>There is one for the whole broker: Kafka makes an assignor each time it reads its configuration, and calls it from
 * several threads at once.
 */
class AssignorMetrics implements AssignorMetricsMBean {
    static final String NAME = "io.samerack:type=RackAwareAssignor";
    static final AssignorMetrics OF_BROKER = new AssignorMetrics();

    private static final Logger LOG = LoggerFactory.getLogger(RackAwareAssignor.class);

    /** Why a plain plan replaced the exact one. */
    enum Cause {
        WORK_BOUND,
        ERROR,
        FAILED_CHECK,
        UNKNOWN_TOPICS,
        UNKNOWN_REPLICA_RACKS,
        UNKNOWN_MEMBER_RACKS
    }

    private final String name;

    private final AtomicLong assignments = new AtomicLong();
    private final AtomicLong configurationErrors = new AtomicLong();
    private final Map<Cause, AtomicLong> plainPlans = new EnumMap<>(Cause.class);
    private final LongAccumulator longestNanoseconds = new LongAccumulator(Math::max, 0);
    private volatile long lastNanoseconds;

    AssignorMetrics() {
        this(NAME);
    }

    AssignorMetrics(String name) {
        this.name = name;
        for (Cause cause : Cause.values()) {
            plainPlans.put(cause, new AtomicLong());
        }
    }

    StandardMBean bean() throws NotCompliantMBeanException {
        return new StandardMBean(this, AssignorMetricsMBean.class);
    }

    /** Makes the counts visible; without them the assignor works all the same. */
    void register() {
        try {
            ManagementFactory.getPlatformMBeanServer()
                    .registerMBean(bean(), new ObjectName(name));
        } catch (InstanceAlreadyExistsException again) {
            LOG.debug("{} is registered already", name);
        } catch (JMException | RuntimeException failure) {
            LOG.warn("The assignor's metrics are not visible as {}", name, failure);
        }
    }

    void assigned(long nanoseconds) {
        assignments.incrementAndGet();
        longestNanoseconds.accumulate(nanoseconds);
        lastNanoseconds = nanoseconds;
    }

    void wrongProperty(String name, String mistake) {
        configurationErrors.incrementAndGet();
        LOG.error("{} is not used, its default is: {}", name, mistake);
    }

    void plain(Cause cause, Throwable failure, Group group) {
        plain(cause, failure, group.members.length, group.partitions() + " partitions");
    }

    final void plain(Cause cause, Throwable failure, int members, String content) {
        if (plainPlans.get(cause).getAndIncrement() == 0) {
            LOG.error(
                    "A group of {} members and {} got a plain plan, balanced and sticky but not exact ({})."
                            + " This cause is logged once and then counted in {}",
                    members,
                    content,
                    cause,
                    name,
                    failure);
        }
    }

    final long plainPlans(Cause cause) {
        return plainPlans.get(cause).get();
    }

    @Override
    public long getAssignments() {
        return assignments.get();
    }

    @Override
    public long getPlainPlansForWorkBound() {
        return plainPlans(Cause.WORK_BOUND);
    }

    @Override
    public long getPlainPlansForError() {
        return plainPlans(Cause.ERROR);
    }

    @Override
    public long getPlainPlansForFailedCheck() {
        return plainPlans(Cause.FAILED_CHECK);
    }

    @Override
    public long getConfigurationErrors() {
        return configurationErrors.get();
    }

    @Override
    public double getLastAssignmentMilliseconds() {
        return lastNanoseconds / 1e6;
    }

    @Override
    public double getLongestAssignmentMilliseconds() {
        return longestNanoseconds.get() / 1e6;
    }
}
