package io.samerack.streams;

import io.samerack.streams.AgentException.Cause;
import java.time.DateTimeException;
import java.time.Instant;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.apache.kafka.streams.processor.TaskId;
import org.apache.kafka.streams.processor.assignment.ApplicationState;
import org.apache.kafka.streams.processor.assignment.KafkaStreamsAssignment;
import org.apache.kafka.streams.processor.assignment.KafkaStreamsAssignment.AssignedTask;
import org.apache.kafka.streams.processor.assignment.ProcessId;
import org.apache.kafka.streams.processor.assignment.TaskAssignmentUtils;
import org.apache.kafka.streams.processor.assignment.TaskAssignor.AssignmentError;
import org.apache.kafka.streams.processor.assignment.TaskAssignor.TaskAssignment;

/** The agent's answer, validated: each task is active exactly once, and every rule of Kafka Streams holds. */
final class Plan {
    /**
     * An earlier follow-up rebalance comes after this time: plans that ask for one in the past rebalance an application for
     * ever. It is a sixth of the shortest probing interval that Kafka Streams allows, so that clocks may differ.
     */
    static final long MIN_FOLLOWUP_MS = 10_000;

    /** The agent's name of the plan. */
    final String id;
    final TaskAssignment assignment;
    /** What the plan costs, as the agent's answer has it; not read any further. */
    final Object bill;
    final List<String> warnings;
    /** A deadline of the answer that was too early; null without one. */
    final Instant early;

    private Plan(String id, TaskAssignment assignment, Object bill, List<String> warnings, Instant early) {
        this.id = id;
        this.assignment = assignment;
        this.bill = bill;
        this.warnings = warnings;
        this.early = early;
    }

    /**
     * Reads an answer.
     *
     * @throws AgentException it cannot be read, has another version, or breaks a rule
     */
    static Plan read(String answer, Application application, ApplicationState state) throws AgentException {
        Map<String, Object> root;
        try {
            root = Parts.object(JsonReader.read(answer), "the answer");
            Object version = root.get("version");
            if (!Long.valueOf(Application.VERSION).equals(version)) {
                throw new AgentException(
                        Cause.UNKNOWN_VERSION,
                        "the answer has version " + version + ", and this jar knows version " + Application.VERSION
                                + "; give agent and jar the same release");
            }
            ClientReader reader = new ClientReader(application);
            List<KafkaStreamsAssignment> found = reader.read(Parts.list(root, "clients"));
            TaskAssignment assignment = new TaskAssignment(found);
            AssignmentError error = TaskAssignmentUtils.validateTaskAssignment(state, assignment);
            if (error != AssignmentError.NONE) {
                throw invalid(error.name(), "so Kafka Streams itself finds");
            }
            List<String> warnings = new ArrayList<>();
            if (root.get("warnings") != null) {
                Parts.list(root, "warnings").forEach(warning -> warnings.add(String.valueOf(warning)));
            }
            return new Plan(Parts.text(root, "plan"), assignment, root.get("bill"), warnings, reader.early);
        } catch (JsonReader.MalformedException malformed) {
            throw new AgentException(Cause.UNREADABLE, "the answer cannot be read: " + malformed.getMessage(), malformed);
        }
    }

    static AgentException invalid(String rule, String detail) {
        return new AgentException(Cause.INVALID_PLAN, "the plan breaks the rule " + rule + ": " + detail);
    }

    /** Reads the clients of one answer, and holds them to the rules that do not need Kafka's classes. */
    private static final class ClientReader {
        private final Application application;
        private final Map<String, ProcessId> processes = new HashMap<>();
        private final boolean[] isActive;
        private Instant early;

        ClientReader(Application application) {
            this.application = application;
            application.clients.keySet().forEach(process -> processes.put(process.id().toString(), process));
            isActive = new boolean[application.tasks.size()];
        }

        List<KafkaStreamsAssignment> read(List<Object> rows) throws JsonReader.MalformedException, AgentException {
            List<KafkaStreamsAssignment> found = new ArrayList<>();
            Set<ProcessId> missing = new HashSet<>(application.clients.keySet());
            for (Object row : rows) {
                Map<String, Object> client = Parts.object(row, "a client");
                ProcessId process = processes.get(Parts.text(client, "process"));
                if (process == null) {
                    throw invalid(AssignmentError.UNKNOWN_PROCESS_ID.name(), "client " + client.get("process"));
                }
                if (!missing.remove(process)) {
                    throw invalid("one assignment for each client", "client " + process.id() + " has two");
                }
                found.add(read(process, client));
            }
            if (!missing.isEmpty()) {
                throw invalid(AssignmentError.MISSING_PROCESS_ID.name(), "client " + missing.iterator().next().id());
            }
            for (int task = 0; task < isActive.length; task++) {
                if (!isActive[task]) {
                    throw invalid("each task is active", "task " + id(task) + " has no active client");
                }
            }
            return found;
        }

        private KafkaStreamsAssignment read(ProcessId process, Map<String, Object> client)
                throws JsonReader.MalformedException, AgentException {
            Set<AssignedTask> tasks = new HashSet<>();
            Set<Integer> here = new HashSet<>();
            for (Object given : Parts.list(client, "active")) {
                int task = task(given, process);
                if (isActive[task]) {
                    throw invalid(AssignmentError.ACTIVE_TASK_ASSIGNED_MULTIPLE_TIMES.name(), "task " + id(task));
                }
                isActive[task] = true;
                here.add(task);
                tasks.add(new AssignedTask(id(task), AssignedTask.Type.ACTIVE));
            }
            for (Object given : Parts.list(client, "standby")) {
                int task = task(given, process);
                if (!application.tasks.get(task).isStateful()) {
                    throw invalid(AssignmentError.INVALID_STANDBY_TASK.name(), "task " + id(task) + " has no state");
                }
                if (!here.add(task)) {
                    throw invalid("a client has a task once", "task " + id(task) + " on " + process.id());
                }
                tasks.add(new AssignedTask(id(task), AssignedTask.Type.STANDBY));
            }
            KafkaStreamsAssignment assignment = KafkaStreamsAssignment.of(process, tasks);
            Object deadline = client.get("followup_ms");
            if (deadline == null) {
                return assignment;
            }
            if (!(deadline instanceof Long) || (Long) deadline < 0) {
                throw invalid("a follow-up rebalance has a time", "it is " + deadline + " on " + process.id());
            }
            try {
                return assignment.withFollowupRebalance(held(Instant.ofEpochMilli((Long) deadline)));
            } catch (DateTimeException beyond) {
                throw invalid("a follow-up rebalance has a time", "it is " + deadline + " on " + process.id());
            }
        }

        private Instant held(Instant deadline) {
            Instant earliest = Instant.now().plusMillis(MIN_FOLLOWUP_MS);
            if (!deadline.isBefore(earliest)) {
                return deadline;
            }
            early = deadline;
            return earliest;
        }

        private int task(Object given, ProcessId process) throws AgentException {
            if (!(given instanceof Long) || (Long) given < 0 || (Long) given >= isActive.length) {
                throw invalid(AssignmentError.UNKNOWN_TASK_ID.name(), "task " + given + " on " + process.id());
            }
            return ((Long) given).intValue();
        }

        private TaskId id(int task) {
            return application.tasks.get(task).id();
        }
    }

    /** Takes parts of a document, or says which one is wrong. */
    private static final class Parts {
        private Parts() {}

        @SuppressWarnings("unchecked") // JsonReader makes no other maps
        static Map<String, Object> object(Object given, String what) throws JsonReader.MalformedException {
            if (given instanceof Map) {
                return (Map<String, Object>) given;
            }
            throw new JsonReader.MalformedException(what + " is no object");
        }

        @SuppressWarnings("unchecked") // nor other lists
        static List<Object> list(Map<String, Object> object, String name) throws JsonReader.MalformedException {
            if (object.get(name) instanceof List) {
                return (List<Object>) object.get(name);
            }
            throw new JsonReader.MalformedException(name + " is no list");
        }

        static String text(Map<String, Object> object, String name) throws JsonReader.MalformedException {
            if (object.get(name) instanceof String) {
                return (String) object.get(name);
            }
            throw new JsonReader.MalformedException(name + " is no text");
        }
    }
}
