package io.samerack.streams;

import io.samerack.streams.AgentException.Cause;
import java.lang.management.ManagementFactory;
import java.util.EnumMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicLong;
import javax.management.InstanceAlreadyExistsException;
import javax.management.JMException;
import javax.management.ObjectName;
import javax.management.StandardMBean;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Counts what the assignor does for one application, and logs each cause of a fall-back once until the agent plans again.
 *
 * <p>It outlives the assignor, which Kafka Streams makes anew for each rebalance. It is an MBean of its own since Kafka
 * Streams gives a task assignor no access to the metrics of its client.
 */
final class AssignorMetrics implements AssignorMetricsMBean {
    private static final Logger LOG = LoggerFactory.getLogger(AgentTaskAssignor.class);
    private static final Map<String, AssignorMetrics> KNOWN = new ConcurrentHashMap<>();

    private final String name;
    private final AtomicLong assignments = new AtomicLong();
    private final AtomicLong agentPlans = new AtomicLong();
    private final AtomicLong failedFallbacks = new AtomicLong();
    private final Map<Cause, AtomicLong> fallbacks = new EnumMap<>(Cause.class);
    private volatile double lastMilliseconds;
    private volatile double longestMilliseconds;
    /** What has been logged; guarded by this. */
    private final Set<Cause> logged = new HashSet<>();

    private final Set<String> mistakes = ConcurrentHashMap.newKeySet();
    private final AtomicBoolean isEarlyLogged = new AtomicBoolean();
    private volatile List<String> warnings = List.of();

    private AssignorMetrics(String application) {
        name = "io.samerack:type=AgentTaskAssignor,application=" + ObjectName.quote(application);
        for (Cause cause : Cause.values()) {
            fallbacks.put(cause, new AtomicLong());
        }
    }

    /** Returns those of an application, and makes them visible. */
    static AssignorMetrics of(String application) {
        return KNOWN.computeIfAbsent(application, none -> {
            AssignorMetrics made = new AssignorMetrics(application);
            made.register();
            return made;
        });
    }

    /** Makes the counts visible; without that the assignor works all the same. */
    private void register() {
        try {
            ManagementFactory.getPlatformMBeanServer()
                    .registerMBean(new StandardMBean(this, AssignorMetricsMBean.class), new ObjectName(name));
        } catch (InstanceAlreadyExistsException again) {
            LOG.debug("{} is registered already", name);
        } catch (JMException | RuntimeException failure) {
            LOG.warn("The assignor's metrics are not visible as {}", name, failure);
        }
    }

    /** Counts and logs a wrong property, once. */
    void wrongProperty(String property, String mistake) {
        if (mistakes.add(property + ": " + mistake)) {
            LOG.error("{} is not used, its default is: {}", property, mistake);
        }
    }

    void assigned(long nanoseconds) {
        assignments.incrementAndGet();
        lastMilliseconds = nanoseconds / 1e6;
        longestMilliseconds = Math.max(longestMilliseconds, lastMilliseconds);
    }

    void agentPlanned(Plan plan) {
        agentPlans.incrementAndGet();
        boolean returned;
        synchronized (logged) {
            returned = !logged.isEmpty();
            logged.clear();
        }
        if (returned) {
            LOG.info("The agent plans again");
        }
        LOG.info("The assignment is the agent's plan {}, with the bill {}", plan.id, plan.bill);
        if (plan.early != null && !isEarlyLogged.getAndSet(true)) {
            LOG.warn("The plan asks for a follow-up rebalance at {}, which is past or too early: it comes after {} ms. The time"
                    + " is in milliseconds since 1970. This is logged once", plan.early, Plan.MIN_FOLLOWUP_MS);
        }
        if (!plan.warnings.equals(warnings)) {
            warnings = plan.warnings;
            plan.warnings.forEach(warning -> LOG.warn("The agent warns: {}", warning));
        }
    }

    void fellBack(AgentException failure) {
        fallbacks.get(failure.reason).incrementAndGet();
        boolean isNew;
        synchronized (logged) {
            isNew = logged.add(failure.reason);
        }
        if (!isNew || failure.reason == Cause.BACKING_OFF) {
            LOG.debug("The fall-back assigns tasks", failure);
        } else if (failure.reason == Cause.ERROR) {
            LOG.error("The fall-back assigns tasks after a bug. It is logged once and then counted in {}", name, failure);
        } else {
            LOG.warn(
                    "The fall-back assigns tasks: {}. This cause is logged once until the agent plans again, and counted"
                            + " in {}",
                    failure.getMessage(),
                    name);
        }
    }

    void fallbackFailed(Object assignor, Object failure) {
        if (failedFallbacks.getAndIncrement() == 0) {
            Throwable trace = failure instanceof Throwable ? (Throwable) failure : null;
            LOG.error("{} failed ({}), and the next one assigns tasks. This is logged once and then counted in {}",
                    assignor, failure, name, trace);
        }
    }

    @Override
    public long getAssignments() {
        return assignments.get();
    }

    @Override
    public long getAgentPlans() {
        return agentPlans.get();
    }

    @Override
    public long getFallbacks() {
        return fallbacks.values().stream().mapToLong(AtomicLong::get).sum();
    }

    @Override
    public long getFallbacksForNoAnswer() {
        return fallbacks.get(Cause.NO_ANSWER).get();
    }

    @Override
    public long getFallbacksForDeadline() {
        return fallbacks.get(Cause.DEADLINE).get();
    }

    @Override
    public long getFallbacksForRefusal() {
        return fallbacks.get(Cause.REFUSED).get();
    }

    @Override
    public long getFallbacksForUnknownVersion() {
        return fallbacks.get(Cause.UNKNOWN_VERSION).get();
    }

    @Override
    public long getFallbacksForUnreadableAnswer() {
        return fallbacks.get(Cause.UNREADABLE).get();
    }

    @Override
    public long getFallbacksForInvalidPlan() {
        return fallbacks.get(Cause.INVALID_PLAN).get();
    }

    @Override
    public long getFallbacksForPause() {
        return fallbacks.get(Cause.BACKING_OFF).get();
    }

    @Override
    public long getFallbacksForError() {
        return fallbacks.get(Cause.ERROR).get() + fallbacks.get(Cause.INTERRUPTED).get();
    }

    @Override
    public long getFailedFallbacks() {
        return failedFallbacks.get();
    }

    @Override
    public long getConfigurationErrors() {
        return mistakes.size();
    }

    @Override
    public double getLastAssignmentMilliseconds() {
        return lastMilliseconds;
    }

    @Override
    public double getLongestAssignmentMilliseconds() {
        return longestMilliseconds;
    }
}
