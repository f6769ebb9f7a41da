package io.samerack.streams;

import io.samerack.streams.AgentException.Cause;
import java.io.IOException;
import java.io.InputStream;
import java.util.Map;
import java.util.Properties;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor.GroupAssignment;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor.GroupSubscription;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.processor.assignment.ApplicationState;
import org.apache.kafka.streams.processor.assignment.TaskAssignmentUtils;
import org.apache.kafka.streams.processor.assignment.TaskAssignor;

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

    private static final String RELEASE = release();

    private Settings settings;
    private AssignorMetrics metrics;
    private String plan;
    private String fallback;

    /** Makes an assignor that is not configured. Kafka Streams calls {@link #configure} next. */
    public AgentTaskAssignor() {}

    @Override
    public void configure(Map<String, ?> properties) {
        settings = Settings.of(properties);
        metrics = AssignorMetrics.of(settings.application);
        settings.mistakes.forEach(metrics::wrongProperty);
        try {
            JsonWriter json = new JsonWriter();
            json.startObject().key("version").value(Application.VERSION);
            json.key("application").value(settings.application).endObject();
            Agent.of(settings).prepare(PREPARE, json.toString(), settings.timeout);
        } catch (RuntimeException | LinkageError unsent) {
            // the question meets the same, and is counted; a configuration must not stop an application
        }
    }

    @Override
    public TaskAssignment assign(ApplicationState state) {
        long started = System.nanoTime();
        try {
            return planned(state);
        } catch (AgentException failure) {
            return fallBack(state, failure);
        } catch (RuntimeException | StackOverflowError | LinkageError bug) {
            return fallBack(state, new AgentException(Cause.ERROR, "a bug: " + bug, bug));
        } finally {
            metrics.assigned(System.nanoTime() - started);
        }
    }

    private TaskAssignment planned(ApplicationState state) throws AgentException {
        plan = null;
        fallback = null;
        Agent agent = Agent.of(settings);
        agent.requireNoPause(settings.retry);
        try {
            Application application = new Application(state);
            String question = application.toJson(settings, RELEASE);
            Plan found = Plan.read(agent.ask(ASSIGN, question, settings.timeout), application, state);
            agent.answered();
            metrics.agentPlanned(found);
            plan = found.id;
            return found.assignment;
        } catch (AgentException failure) {
            if (failure.reason != Cause.INTERRUPTED) {
                agent.failed();
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
                    return found;
                }
                metrics.fallbackFailed(next.getClass().getName(), error);
            } catch (RuntimeException | StackOverflowError | LinkageError | AssertionError broken) {
                metrics.fallbackFailed(next.getClass().getName(), broken);
            }
        }
        return LastResort.assign(state);
    }

    @Override
    public void onAssignmentComputed(GroupAssignment assignment, GroupSubscription subscription, AssignmentError error) {
        try {
            JsonWriter json = new JsonWriter();
            json.startObject().key("version").value(Application.VERSION);
            json.key("application").value(settings.application).key("plan").value(plan);
            json.key("error").value(error.name()).key("generation").nothing();
            json.key("fallback").value(fallback).endObject();
            Agent.of(settings).tell(COMPUTED, json.toString(), settings.timeout);
        } catch (RuntimeException | LinkageError bug) {
            metrics.fellBack(new AgentException(Cause.ERROR, "the outcome could not be sent: " + bug, bug));
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
