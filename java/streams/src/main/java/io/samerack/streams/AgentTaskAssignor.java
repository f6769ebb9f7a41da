package io.samerack.streams;

import io.samerack.streams.AgentException.Cause;
import java.io.IOException;
import java.io.InputStream;
import java.net.URLEncoder;
import java.nio.charset.StandardCharsets;
import java.util.Map;
import java.util.Properties;
import java.util.function.LongSupplier;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor.GroupAssignment;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor.GroupSubscription;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.processor.assignment.ApplicationState;
import org.apache.kafka.streams.processor.assignment.TaskAssignmentUtils;
import org.apache.kafka.streams.processor.assignment.TaskAssignor;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Gets the tasks of a Kafka Streams application from the samerack agent on the same host (KIP-924).
 *
 * <p>In the configuration of the application: {@code task.assignor.class=io.samerack.streams.AgentTaskAssignor}. The
 * member that leads the group sends the agent what Kafka Streams knows of tasks, clients, lags and racks, and gets active
 * tasks, standbys and the time of a follow-up rebalance.
 *
 * <p>It never throws, and it never gives Kafka Streams an assignment that breaks a rule. The agent is asked once, and has
 * to answer within {@value Settings#TIMEOUT_MS}. If it does not, refuses, or answers with a plan that is not valid, a
 * fall-back plans, and the agent is not asked again for {@value Settings#RETRY_MS}. Each cause is logged once and
 * counted in {@link AssignorMetricsMBean}.
 *
 * <p>Properties: {@value Settings#URL}, {@value Settings#TIMEOUT_MS}, {@value Settings#RETRY_MS}, {@value
 * Settings#ASSIGNOR} and {@value Settings#FALLBACK_CLASS}. A wrong value is logged and its default is used: it must not
 * stop an application.
 */
public final class AgentTaskAssignor implements TaskAssignor {
    static final String ASSIGN = "/v1/streams/assign";
    static final String PREPARE = "/v1/streams/prepare";
    static final String COMPUTED = "/v1/streams/computed";

    private static final Logger LOG = LoggerFactory.getLogger(AgentTaskAssignor.class);
    private static final String RELEASE = release();

    /** Nanoseconds since any moment. */
    private final LongSupplier clock;

    private Settings settings;
    private AssignorMetrics metrics;
    private String plan;
    private String fallback;
    /** The one of the fall-backs whose assignment is used; null where it is the agent's plan. */
    private TaskAssignor planner;

    /** Makes an assignor that is not configured. Kafka Streams calls {@link #configure} next. */
    public AgentTaskAssignor() {
        this(System::nanoTime);
    }

    AgentTaskAssignor(LongSupplier clock) {
        this.clock = clock;
    }

    /**
     * Reads the properties, and sends the agent a notice that a question will come, so that its planning process
     * runs by then. Kafka Streams still has to collect what is asked; nothing waits for the notice.
     */
    @Override
    public void configure(Map<String, ?> properties) {
        settings = Settings.of(properties);
        metrics = AssignorMetrics.of(settings.application);
        settings.mistakes.forEach(metrics::wrongProperty);
        try {
            JsonWriter json = new JsonWriter();
            json.startObject().key("version").value(Application.VERSION);
            json.key("application").value(settings.application).endObject();
            Agent.of(settings).send(PREPARE, json.toString(), settings.timeout);
        } catch (Throwable unsent) {
            LOG.debug("The agent was not asked to prepare", unsent); // the question meets the same, and is counted
        }
    }

    /** Errors are caught too, as those of memory, threads and classes: what leaves here ends a stream thread. */
    @Override
    public TaskAssignment assign(ApplicationState state) {
        long started = clock.getAsLong();
        plan = null;
        fallback = null;
        planner = null;
        try {
            return planned(state);
        } catch (AgentException failure) {
            return fallBack(state, failure);
        } catch (Throwable bug) {
            return fallBack(state, new AgentException(Cause.ERROR, "a bug: " + bug, bug));
        } finally {
            metrics.assigned(clock.getAsLong() - started);
        }
    }

    private TaskAssignment planned(ApplicationState state) throws AgentException {
        Agent agent = Agent.of(settings);
        agent.requireNoPause(settings.retry, clock.getAsLong());
        try {
            Application application = new Application(state);
            String question = application.toJson(settings, RELEASE);
            String name = "?application=" + URLEncoder.encode(settings.application, StandardCharsets.UTF_8);
            Plan found = Plan.read(agent.ask(ASSIGN + name, question, settings.timeout), application, state);
            agent.answered();
            metrics.agentPlanned(found);
            plan = found.id;
            return found.assignment;
        } catch (Throwable failure) {
            if (!(failure instanceof AgentException known && known.reason == Cause.INTERRUPTED)) {
                agent.failed(clock.getAsLong());
            }
            throw failure;
        }
    }

    private TaskAssignment fallBack(ApplicationState state, AgentException failure) {
        metrics.fellBack(failure);
        fallback = failure.reason + ": " + failure.getMessage();
        for (TaskAssignor next : new TaskAssignor[] {settings.fallback, new DefaultFallback()}) {
            try {
                TaskAssignment found = next.assign(state);
                AssignmentError error = TaskAssignmentUtils.validateTaskAssignment(state, found);
                if (error == AssignmentError.NONE) {
                    planner = next;
                    return found;
                }
                metrics.fallbackFailed(next.getClass().getName(), error);
            } catch (Throwable broken) {
                metrics.fallbackFailed(next.getClass().getName(), broken);
            }
        }
        return LastResort.assign(state);
    }

    /** Sends the outcome to the agent, and hands it to the fall-back if that planned. */
    @Override
    public void onAssignmentComputed(GroupAssignment assignment, GroupSubscription subscription, AssignmentError error) {
        try {
            JsonWriter json = new JsonWriter();
            json.startObject().key("version").value(Application.VERSION);
            json.key("application").value(settings.application).key("plan").value(plan);
            json.key("error").value(error.name()).key("fallback").value(fallback).endObject();
            Agent.of(settings).send(COMPUTED, json.toString(), settings.timeout);
        } catch (Throwable unsent) {
            LOG.warn("The outcome of the assignment could not be sent to the agent, which changes nothing else", unsent);
        }
        try {
            if (planner != null) {
                planner.onAssignmentComputed(assignment, subscription, error);
            }
        } catch (Throwable broken) {
            LOG.warn("{} failed in onAssignmentComputed, which changes nothing else", planner.getClass().getName(), broken);
        }
    }

    /** Returns the version that Kafka Streams' jar names, as its own log does. */
    private static String release() {
        try (InputStream file = KafkaStreams.class.getResourceAsStream("/kafka/kafka-streams-version.properties")) {
            Properties found = new Properties();
            if (file != null) {
                found.load(file);
            }
            return found.getProperty("version", "unknown").trim();
        } catch (IOException | IllegalArgumentException unreadable) {
            return "unknown";
        }
    }
}
