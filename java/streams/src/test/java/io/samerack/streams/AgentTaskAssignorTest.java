package io.samerack.streams;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNotNull;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.samerack.streams.AgentException.Cause;
import java.io.ByteArrayOutputStream;
import java.io.PrintStream;
import java.lang.management.ManagementFactory;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Instant;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicLong;
import java.util.function.LongSupplier;
import javax.management.ObjectName;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor.GroupAssignment;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor.GroupSubscription;
import org.apache.kafka.streams.processor.TaskId;
import org.apache.kafka.streams.processor.assignment.ApplicationState;
import org.apache.kafka.streams.processor.assignment.AssignmentConfigs;
import org.apache.kafka.streams.processor.assignment.KafkaStreamsAssignment;
import org.apache.kafka.streams.processor.assignment.KafkaStreamsAssignment.AssignedTask;
import org.apache.kafka.streams.processor.assignment.KafkaStreamsState;
import org.apache.kafka.streams.processor.assignment.ProcessId;
import org.apache.kafka.streams.processor.assignment.TaskAssignmentUtils;
import org.apache.kafka.streams.processor.assignment.TaskAssignor;
import org.apache.kafka.streams.processor.assignment.TaskAssignor.AssignmentError;
import org.apache.kafka.streams.processor.assignment.TaskAssignor.TaskAssignment;
import org.apache.kafka.streams.processor.assignment.TaskInfo;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.Timeout.ThreadMode;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.ValueSource;

/** What the assignor does with an agent that answers, one that does not, and one that answers wrongly. */
class AgentTaskAssignorTest {
    private static final AtomicInteger COUNT = new AtomicInteger();
    private static final String ONE = "00000000-0000-0000-0000-000000000001";
    private static final String TWO = "00000000-0000-0000-0000-000000000002";

    private final String name = "application-" + COUNT.incrementAndGet();
    private TestAgent agent;

    @BeforeEach
    void start() {
        agent = new TestAgent();
    }

    @AfterEach
    void stop() {
        agent.close();
    }

    /** Two clients in two racks; tasks 0_0 and 0_1 with state on the first one, 1_0 without state on nobody. */
    private static TestApplication application() {
        TaskId first = new TaskId(0, 0);
        TaskId second = new TaskId(0, 1);
        return new TestApplication()
                .task(0, 0, true, "rack-a")
                .task(0, 1, true, "rack-b", "rack-a")
                .task(1, 0, false)
                .client(1, "rack-a", Set.of(first, second), Map.of(first, -2L, second, -2L))
                .client(2, "rack-b", Map.of("zone", "b"), Set.of(), Set.of(), Map.of(first, 10L, second, 20L));
    }

    private static String answer(String clients) {
        return "{\"version\":1,\"plan\":\"p-7\",\"clients\":[" + clients
                + "],\"assignor\":\"ha\",\"bill\":{\"cross_rack_before\":1,\"moved\":null},\"warnings\":[]}";
    }

    private static String client(String process, String active, String standby, String followup) {
        return "{\"process\":\"" + process + "\",\"active\":[" + active + "],\"standby\":[" + standby
                + "],\"followup_ms\":" + followup + "}";
    }

    private static String goodAnswer() {
        return answer(client(ONE, "0,2", "1", "null") + "," + client(TWO, "1", "0", "4102444800000"));
    }

    private AgentTaskAssignor assignor(Map<String, ?> properties) {
        return assignor(properties, System::nanoTime);
    }

    private AgentTaskAssignor assignor(Map<String, ?> properties, LongSupplier clock) {
        AgentTaskAssignor made = new AgentTaskAssignor(clock);
        made.configure(agent.properties(name, properties));
        return made;
    }

    private static Map<ProcessId, KafkaStreamsAssignment> byProcess(TaskAssignment assignment) {
        Map<ProcessId, KafkaStreamsAssignment> found = new TreeMap<>();
        assignment.assignment().forEach(one -> found.put(one.processId(), one));
        return found;
    }

    private static Map<ProcessId, Map<TaskId, AssignedTask.Type>> tasks(TaskAssignment assignment) {
        Map<ProcessId, Map<TaskId, AssignedTask.Type>> found = new TreeMap<>();
        byProcess(assignment).forEach((process, one) -> {
            Map<TaskId, AssignedTask.Type> given = new TreeMap<>();
            one.tasks().forEach((task, assigned) -> given.put(task, assigned.type()));
            found.put(process, given);
        });
        return found;
    }

    private AssignorMetrics metrics() {
        return AssignorMetrics.of(name);
    }

    private void assertFellBack(TaskAssignment found) {
        assertEquals(AssignmentError.NONE, TaskAssignmentUtils.validateTaskAssignment(application(), found));
        assertEquals(tasks(new DefaultFallback().assign(application())), tasks(found));
        assertEquals(0, metrics().getAgentPlans());
        assertEquals(0, metrics().getFailedFallbacks());
    }

    @Test
    void thePlanOfTheAgentReachesKafkaStreams() {
        agent.answer = goodAnswer();
        Map<ProcessId, KafkaStreamsAssignment> found = byProcess(assignor(Map.of()).assign(application()));
        KafkaStreamsAssignment one = found.get(TestApplication.process(1));
        KafkaStreamsAssignment two = found.get(TestApplication.process(2));
        assertEquals(
                Map.of(
                        new TaskId(0, 0), AssignedTask.Type.ACTIVE,
                        new TaskId(1, 0), AssignedTask.Type.ACTIVE,
                        new TaskId(0, 1), AssignedTask.Type.STANDBY),
                tasks(new TaskAssignment(List.of(one))).get(one.processId()));
        assertEquals(
                Map.of(new TaskId(0, 1), AssignedTask.Type.ACTIVE, new TaskId(0, 0), AssignedTask.Type.STANDBY),
                tasks(new TaskAssignment(List.of(two))).get(two.processId()));
        assertEquals(Optional.empty(), one.followupRebalanceDeadline());
        assertEquals(Optional.of(Instant.ofEpochMilli(4_102_444_800_000L)), two.followupRebalanceDeadline());
        assertEquals(1, metrics().getAgentPlans());
        assertEquals(0, metrics().getFallbacks());
    }

    @Test
    void theQuestionHasAllThatKafkaStreamsKnows() throws Exception {
        agent.answer = goodAnswer();
        assignor(Map.of(Settings.ASSIGNOR, "sticky")).assign(application());
        String release = JsonReader.read(agent.questions.get(0)) instanceof Map<?, ?> read ? (String) read.get("release") : "";
        assertTrue(release.matches("[34]\\..*"), release);
        assertEquals(
                "{\"version\":1,\"application\":\"" + name + "\",\"release\":\"" + release + "\",\"configs\":{"
                        + "\"assignor\":\"sticky\",\"acceptable_recovery_lag\":10000,\"max_warmup_replicas\":2,"
                        + "\"num_standby_replicas\":1,\"probing_rebalance_interval_ms\":600000,"
                        + "\"rack_aware_assignment_tags\":[],\"rack_aware_strategy\":\"none\","
                        + "\"rack_aware_traffic_cost\":null,\"rack_aware_non_overlap_cost\":null},"
                        + "\"topics\":[\"log\",\"orders\"],\"racks\":[\"rack-a\",\"rack-b\"],\"tasks\":["
                        + "[\"0_0\",1,[[0,0,2,null],[1,0,1,[0]]]],[\"0_1\",1,[[0,1,2,null],[1,1,1,[0,1]]]],"
                        + "[\"1_0\",0,[[1,0,1,null]]]],\"lags\":[[0,10],[1,20]],\"clients\":["
                        + "{\"process\":\"" + ONE + "\",\"threads\":1,\"consumers\":[\"consumer-1\"],\"active\":[0,1],"
                        + "\"standby\":[],\"lags\":[[0,-2],[1,-2]],\"host\":null,\"tags\":{},\"rack\":0},"
                        + "{\"process\":\"" + TWO + "\",\"threads\":1,\"consumers\":[\"consumer-2\"],\"active\":[],"
                        + "\"standby\":[],\"lags\":[],\"host\":null,\"tags\":{\"zone\":\"b\"},\"rack\":1}]}",
                agent.questions.get(0));
    }

    /** Kafka Streams has no lag for it. */
    @Test
    void aTaskWhoseStoresAreNotLoggedIsAskedForAsStateless() {
        TestApplication application = application();
        TaskId unlogged = new TaskId(2, 0);
        application.tasks.put(unlogged, new TestApplication.Task(unlogged, true, Set.of()));
        agent.status = 500;
        TaskAssignment found = assignor(Map.of()).assign(application);
        assertTrue(agent.questions.get(0).contains("[\"2_0\",0,[]]"), agent.questions.get(0));
        assertEquals(AssignmentError.NONE, TaskAssignmentUtils.validateTaskAssignment(application, found));
        assertEquals(0, metrics().getFailedFallbacks());
    }

    @Test
    void aLagThatOneClientLacksIsNamedByEachOther() {
        TestApplication application = application();
        application.client(2, "rack-b", Set.of(), Map.of(new TaskId(0, 0), 10L));
        agent.answer = goodAnswer();
        assignor(Map.of()).assign(application);
        String question = agent.questions.get(0);
        assertTrue(question.contains("\"lags\":[[0,10]],\"clients\""), question);
        assertTrue(question.contains("\"lags\":[[0,-2],[1,-2]]") && question.contains("\"lags\":[]"), question);
    }

    @Test
    void lagsThatCouldNotBeComputedAreUnknownAndNotZero() {
        TestApplication application = application();
        application.client(2, "rack-b", Set.of(), Map.of(new TaskId(0, 0), -3L, new TaskId(0, 1), -3L));
        agent.status = 500;
        TaskAssignment found = assignor(Map.of()).assign(application);
        assertTrue(agent.questions.get(0).contains("\"lags\":null"), agent.questions.get(0));
        Instant next = byProcess(found).values().stream()
                .flatMap(one -> one.followupRebalanceDeadline().stream())
                .findFirst()
                .orElseThrow();
        // the next rebalance asked for one at once, and so did the one after it
        assertTrue(next.isAfter(Instant.now().plusMillis(application.assignmentConfigs().probingRebalanceIntervalMs() / 2)));
    }

    @ParameterizedTest
    @CsvSource(delimiter = '|', value = {
        "ACTIVE_TASK_ASSIGNED_MULTIPLE_TIMES | 0,1,2 | ''  | 1   | ''",
        "ACTIVE_TASK_ASSIGNED_MULTIPLE_TIMES | 0,1,1,2 | '' | ''  | ''",
        "INVALID_STANDBY_TASK                | 0,1,2 | ''  | ''  | 2",
        "UNKNOWN_TASK_ID                     | 0,1,2,3 | '' | ''  | ''",
        "UNKNOWN_TASK_ID                     | 0,1,2 | ''  | ''  | -1",
        "UNKNOWN_TASK_ID                     | 0,1,2 | ''  | ''  | 0.5",
        "UNKNOWN_TASK_ID                     | 0,1,2 | ''  | ''  | 18446744073709551616.0",
        "a client has a task once            | 0,1,2 | 1   | ''  | ''",
        "a client has a task once            | 0,1,2 | ''  | ''  | '0,0'",
        "each task is active                 | 0,1   | ''  | ''  | ''",
    })
    void aPlanThatBreaksARuleOfTasksNeverReachesKafkaStreams(
            String rule, String active1, String standby1, String active2, String standby2) throws Exception {
        agent.answer = answer(client(ONE, active1, standby1, "null") + "," + client(TWO, active2, standby2, "null"));
        assertIsRefusedFor(rule);
    }

    @ParameterizedTest
    @CsvSource(delimiter = '|', value = {
        "MISSING_PROCESS_ID            | 00000000-0000-0000-0000-000000000001 |                                      | null",
        "UNKNOWN_PROCESS_ID            | 00000000-0000-0000-0000-000000000001 | 00000000-0000-0000-0000-000000000003 | null",
        "UNKNOWN_PROCESS_ID            | 00000000-0000-0000-0000-000000000001 | two                                  | null",
        "one assignment for each client| 00000000-0000-0000-0000-000000000001 | 00000000-0000-0000-0000-000000000001 | null",
        "a follow-up rebalance has a time| 00000000-0000-0000-0000-000000000001 | 00000000-0000-0000-0000-000000000002 | -1",
        "a follow-up rebalance has a time| 00000000-0000-0000-0000-000000000001 | 00000000-0000-0000-0000-000000000002 | \"soon\"",
        "a follow-up rebalance has a time| 00000000-0000-0000-0000-000000000001 | 00000000-0000-0000-0000-000000000002 | 1.5",
    })
    void aPlanThatBreaksARuleOfClientsNeverReachesKafkaStreams(
            String rule, String first, String second, String followup) throws Exception {
        String others = second == null ? "" : "," + client(second, "", "", followup);
        agent.answer = answer(client(first, "0,1,2", "", "null") + others);
        assertIsRefusedFor(rule);
    }

    @ParameterizedTest
    @ValueSource(strings = {"1", "1800000600", "1700000000000", "now"})
    void anEarlyFollowUpRebalanceWaitsForTenSecondsAndIsLoggedOnce(String given) {
        Instant begin = Instant.now();
        agent.answer = answer(client(ONE, "0,2", "1", given.replace("now", "" + begin.toEpochMilli())) + ","
                + client(TWO, "1", "0", "null"));
        String log = logOf(() -> {
            for (int plan = 0; plan < 2; plan++) {
                Instant found = byProcess(assignor(Map.of()).assign(application()))
                        .get(TestApplication.process(1))
                        .followupRebalanceDeadline()
                        .orElseThrow();
                assertFalse(found.isBefore(begin.plusSeconds(10)), found.toString());
                assertFalse(found.isAfter(Instant.now().plusSeconds(10)), found.toString());
            }
        });
        assertEquals(2, metrics().getAgentPlans());
        assertEquals(1, count("WARN .*follow-up rebalance at .* too early", log), log);
    }

    private void assertIsRefusedFor(String rule) throws Exception {
        AgentTaskAssignor assignor = assignor(Map.of());
        assertFellBack(assignor.assign(application()));
        assertEquals(1, metrics().getFallbacksForInvalidPlan());
        String outcome = outcome(assignor);
        assertTrue(outcome.contains("\"fallback\":\"INVALID_PLAN: the plan breaks the rule " + rule), outcome);
    }

    private String outcome(AgentTaskAssignor assignor) throws InterruptedException {
        assignor.onAssignmentComputed(
                new GroupAssignment(Map.of()), new GroupSubscription(Map.of()), AssignmentError.NONE);
        return agent.outcomes.poll(10, TimeUnit.SECONDS);
    }

    @ParameterizedTest
    @CsvSource(delimiter = '|', value = {
        "getFallbacksForUnknownVersion | {\"version\":2}",
        "getFallbacksForUnknownVersion | {}",
        "getFallbacksForUnreadableAnswer | {\"version\":1}",
        "getFallbacksForUnreadableAnswer | {\"version\":1,\"clients\":{}}",
        "getFallbacksForUnreadableAnswer | {\"version\":1,\"clients\":[7]}",
        "getFallbacksForUnreadableAnswer | {\"version\":1,\"clients\":[{\"process\":null}]}",
        "getFallbacksForUnreadableAnswer | <html>",
        "getFallbacksForUnreadableAnswer | ''",
        "getFallbacksForUnreadableAnswer | {\"version\":1} {}",
        "getFallbacksForUnreadableAnswer | null",
    })
    void anAnswerThatCannotBeReadIsNotUsed(String count, String answer) throws Exception {
        agent.answer = answer;
        assertFellBack(assignor(Map.of()).assign(application()));
        assertEquals(1L, AssignorMetricsMBean.class.getMethod(count).invoke(metrics()));
    }

    @Test
    void anAnswerOfDeeplyNestedListsDoesNotExhaustTheStack() {
        agent.answer = "[".repeat(1_000_000);
        assertFellBack(assignor(Map.of()).assign(application()));
        assertEquals(1, metrics().getFallbacksForUnreadableAnswer());
    }

    @Test
    void anAnswerWithoutEndIsCutOff() throws Exception {
        agent.answer = " ".repeat((8 << 20) + 1);
        AgentTaskAssignor assignor = assignor(Map.of());
        assertFellBack(assignor.assign(application()));
        assertEquals(1, metrics().getFallbacksForUnreadableAnswer());
        assertTrue(outcome(assignor).contains("the answer has more than 8388608 bytes"));
    }

    @Test
    void aRefusalIsCountedAndItsReasonComesBack() throws Exception {
        agent.status = 403;
        agent.answer = "{\"error\":\"not here; ask there\\n\\u001b[31m\"}";
        AgentTaskAssignor assignor = assignor(Map.of());
        assertFellBack(assignor.assign(application()));
        assertEquals(1, metrics().getFallbacksForRefusal());
        String outcome = outcome(assignor);
        assertTrue(outcome.contains("answered 403: not here; ask there  [31m\""), outcome);
    }

    /** It is silent until the end, so only the deadline ends the question: not at once, and not never. */
    @Test
    @Timeout(value = 60, threadMode = ThreadMode.SEPARATE_THREAD)
    void anAgentThatIsSilentCostsTheDeadlineAndNoMore() {
        agent.isSilent = true;
        long started = System.nanoTime();
        assertFellBack(assignor(Map.of(Settings.TIMEOUT_MS, "300")).assign(application()));
        long milliseconds = (System.nanoTime() - started) / 1_000_000;
        assertTrue(milliseconds >= 250, milliseconds + " ms");
        assertEquals(1, metrics().getFallbacksForDeadline());
    }

    /** As a stopped process: the kernel takes the connection, and nobody reads. */
    @Test
    @Timeout(value = 60, threadMode = ThreadMode.SEPARATE_THREAD)
    void aStoppedAgentCostsTheDeadlineAndNoMore() throws Exception {
        try (ServerSocket stopped = new ServerSocket(0, 50, InetAddress.getLoopbackAddress())) {
            String url = "http://127.0.0.1:" + stopped.getLocalPort();
            assertFellBack(assignor(Map.of(Settings.TIMEOUT_MS, "300", Settings.URL, url)).assign(application()));
            assertEquals(1, metrics().getFallbacksForDeadline());
        }
    }

    @Test
    @Timeout(value = 60, threadMode = ThreadMode.SEPARATE_THREAD)
    void anAgentAtAUnixSocketIsAskedAsAtAPort(@TempDir Path folder) throws Exception {
        agent.answer = goodAnswer();
        Path path = folder.resolve("agent.sock");
        Map<String, Object> there = Map.of(Settings.URL, "unix:" + path, Settings.RETRY_MS, 0);
        assertFellBack(assignor(there).assign(application()));
        assertEquals(1, metrics().getFallbacksForNoAnswer());
        TestSocket socket = new TestSocket(path, agent.port());
        agent.status = 503;
        assertFellBack(assignor(there).assign(application()));
        assertEquals(1, metrics().getFallbacksForRefusal());
        agent.isSilent = true;
        Map<String, Object> soon = new HashMap<>(there);
        soon.put(Settings.TIMEOUT_MS, 300);
        assertFellBack(assignor(soon).assign(application()));
        assertEquals(1, metrics().getFallbacksForDeadline());
        agent.isSilent = false;
        agent.status = 200;
        AgentTaskAssignor assignor = assignor(there);
        assignor.assign(application());
        assertEquals(1, metrics().getAgentPlans());
        assertTrue(outcome(assignor).contains("\"plan\":\"p-7\""));
        socket.close();
    }

    @Test
    void whereNoAgentRunsTheFallbackPlansAtOnce() {
        int port = agent.port();
        agent.close();
        assertFellBack(assignor(Map.of(Settings.URL, "http://127.0.0.1:" + port)).assign(application()));
        assertEquals(1, metrics().getFallbacksForNoAnswer());
    }

    @Test
    void anAgentThatFailedIsNotAskedInThePauseEvenByANewAssignor() {
        agent.status = 500;
        assignor(Map.of()).assign(application());
        agent.status = 200;
        agent.answer = goodAnswer();
        assertFellBack(assignor(Map.of()).assign(application()));
        assertEquals(1, agent.questions.size());
        assertEquals(1, metrics().getFallbacksForPause());
        assignor(Map.of(Settings.RETRY_MS, "0")).assign(application());
        assertEquals(1, metrics().getAgentPlans());
    }

    @Test
    void afterThePauseTheAgentIsAskedAgain() {
        AtomicLong now = new AtomicLong(Long.MAX_VALUE - 1); // a clock of nanoseconds may overflow
        agent.status = 500;
        assignor(Map.of(), now::get).assign(application());
        agent.status = 200;
        agent.answer = goodAnswer();
        now.addAndGet(TimeUnit.MILLISECONDS.toNanos(29_999));
        assertFellBack(assignor(Map.of(), now::get).assign(application()));
        assertEquals(1, metrics().getFallbacksForPause());
        now.addAndGet(TimeUnit.MILLISECONDS.toNanos(1));
        assignor(Map.of(), now::get).assign(application());
        assertEquals(1, metrics().getAgentPlans());
        assertEquals(2, agent.questions.size());
    }

    @ParameterizedTest
    @ValueSource(classes = {Throwing.class, Sneaky.class, Asserting.class, Threadless.class, Unlinked.class, Recursive.class})
    void aBugOfOurOwnBeginsThePauseToo(Class<? extends Broken> kind) throws Exception {
        Broken bug = kind.getConstructor().newInstance();
        TestApplication whole = application();
        AtomicInteger calls = new AtomicInteger();
        ApplicationState broken = new ApplicationState() {
            @Override
            public Map<ProcessId, KafkaStreamsState> kafkaStreamsStates(boolean computeTaskLags) {
                return whole.clients;
            }

            @Override
            public AssignmentConfigs assignmentConfigs() {
                return whole.configs;
            }

            @Override
            public Map<TaskId, TaskInfo> allTasks() {
                if (calls.getAndIncrement() == 0) {
                    bug.fail();
                }
                return whole.tasks;
            }
        };
        agent.answer = goodAnswer();
        assertFellBack(assignor(Map.of()).assign(broken));
        assertEquals(1, metrics().getFallbacksForError());
        assertFellBack(assignor(Map.of()).assign(application()));
        assertEquals(1, metrics().getFallbacksForPause());
    }

    @Test
    void aCauseIsLoggedOnceUntilTheAgentPlansAgain() {
        Map<String, ?> properties = Map.of(Settings.RETRY_MS, "0");
        String log = logOf(() -> {
            agent.status = 500;
            assignor(properties).assign(application());
            assignor(properties).assign(application());
            agent.answer = "<html>";
            agent.status = 200;
            assignor(properties).assign(application());
            assignor(properties).assign(application());
        });
        assertEquals(1, count("WARN .*The fall-back assigns tasks: the agent at .* answered 500", log), log);
        assertEquals(1, count("WARN .*The fall-back assigns tasks: the answer cannot be read", log), log);
        log = logOf(() -> {
            agent.answer = goodAnswer();
            assignor(properties).assign(application());
            agent.status = 500;
            assignor(properties).assign(application());
        });
        assertEquals(1, count("INFO .*The agent plans again", log), log);
        assertEquals(1, count("WARN .*The fall-back assigns tasks: the agent at .* answered 500", log), log);
    }

    /** Returns what is logged meanwhile. */
    private static String logOf(Runnable work) {
        PrintStream before = System.err;
        ByteArrayOutputStream written = new ByteArrayOutputStream();
        System.setErr(new PrintStream(written, true, StandardCharsets.UTF_8));
        try {
            work.run();
        } finally {
            System.setErr(before);
        }
        return written.toString(StandardCharsets.UTF_8);
    }

    private static long count(String line, String log) {
        return log.lines().filter(one -> one.matches(".*" + line + ".*")).count();
    }

    @Test
    void aRestartedAgentIsAskedOverANewConnection() {
        agent.answer = goodAnswer();
        assignor(Map.of()).assign(application());
        int port = agent.port();
        agent.close();
        agent = new TestAgent(port);
        agent.answer = goodAnswer();
        assignor(Map.of()).assign(application());
        assertEquals(2, metrics().getAgentPlans());
    }

    @Test
    void theAgentIsAskedToPrepareBeforeEachQuestion() throws Exception {
        for (int rebalance = 0; rebalance < 2; rebalance++) { // its process may have ended since the last one
            assignor(Map.of());
            assertEquals(
                    "{\"version\":1,\"application\":\"" + name + "\"}", agent.preparations.poll(10, TimeUnit.SECONDS));
        }
    }

    @Test
    void theOutcomeGoesBackToTheAgent() throws Exception {
        agent.answer = goodAnswer();
        AgentTaskAssignor assignor = assignor(Map.of());
        assignor.assign(application());
        assertEquals(
                "{\"version\":1,\"application\":\"" + name
                        + "\",\"plan\":\"p-7\",\"error\":\"NONE\",\"fallback\":null}",
                outcome(assignor));
    }

    @Test
    void anOutcomeThatNobodyTakesDisturbsNothing() {
        AgentTaskAssignor assignor = assignor(Map.of());
        agent.close();
        assignor.onAssignmentComputed(
                new GroupAssignment(Map.of()), new GroupSubscription(Map.of()), AssignmentError.UNKNOWN_TASK_ID);
        assertEquals(0, metrics().getFallbacks());
    }

    @Test
    void anInterruptedThreadStaysInterruptedAndGetsTheFallback() {
        agent.isSilent = true;
        Thread.currentThread().interrupt();
        TaskAssignment found = assignor(Map.of()).assign(application());
        assertTrue(Thread.interrupted());
        assertFellBack(found);
        assertEquals(1, metrics().getFallbacksForError());
    }

    @Test
    void anOutcomeThatCannotBeSentIsNoFallback() {
        AgentTaskAssignor assignor = assignor(Map.of());
        assignor.onAssignmentComputed(new GroupAssignment(Map.of()), new GroupSubscription(Map.of()), null);
        assertEquals(0, metrics().getFallbacks());
    }

    /** A fall-back that fails, in {@code configure} too where the property "fails.at" says so. */
    public abstract static class Broken implements TaskAssignor {
        abstract void fail();

        @Override
        public void configure(Map<String, ?> properties) {
            if ("configure".equals(properties.get("fails.at"))) {
                fail();
            }
        }

        @Override
        public TaskAssignment assign(ApplicationState state) {
            fail();
            return null;
        }
    }

    /** Throws what Java expects. */
    public static final class Throwing extends Broken {
        @Override
        void fail() {
            throw new IllegalStateException("broken");
        }
    }

    /** Throws a checked exception that it does not declare, as Kotlin and Scala can. */
    public static final class Sneaky extends Broken {
        @Override
        void fail() {
            hide(new java.io.IOException("broken"));
        }

        @SuppressWarnings("unchecked") // this is the trick
        private static <T extends Throwable> void hide(Throwable failure) throws T {
            throw (T) failure;
        }
    }

    /** Fails at an assertion, as code under test does. */
    public static final class Asserting extends Broken {
        @Override
        void fail() {
            throw new AssertionError("broken");
        }
    }

    /** Starts a thread where the system has no more. */
    public static final class Threadless extends Broken {
        @Override
        void fail() {
            throw new OutOfMemoryError("unable to create native thread");
        }
    }

    /** Needs a class that cannot be loaded. */
    public static final class Unlinked extends Broken {
        private static final class Needed {
            static final int NUMBER = Integer.parseInt("none");
        }

        @Override
        void fail() {
            assertEquals(1, Needed.NUMBER);
        }
    }

    /** Never returns by itself. */
    public static final class Recursive extends Broken {
        @Override
        void fail() {
            fail();
            fail(); // or it would be a loop to a compiler
        }
    }

    /** A fall-back whose assignment lacks a client. */
    public static final class Wrong implements TaskAssignor {
        @Override
        public TaskAssignment assign(ApplicationState state) {
            return new TaskAssignment(List.of());
        }
    }

    /** A fall-back that gives every task to the second client, and keeps the outcomes that it gets. */
    public static final class Own implements TaskAssignor {
        private static final List<AssignmentError> OUTCOMES = new CopyOnWriteArrayList<>();

        private String property;

        @Override
        public void onAssignmentComputed(
                GroupAssignment assignment, GroupSubscription subscription, AssignmentError error) {
            OUTCOMES.add(error);
            throw new AssertionError("its failure disturbs nothing");
        }

        @Override
        public void configure(Map<String, ?> properties) {
            property = String.valueOf(properties.get("own.property"));
        }

        @Override
        public TaskAssignment assign(ApplicationState state) {
            assertEquals("mine", property);
            Set<AssignedTask> all = new java.util.HashSet<>();
            state.allTasks().keySet().forEach(task -> all.add(new AssignedTask(task, AssignedTask.Type.ACTIVE)));
            return new TaskAssignment(List.of(
                    KafkaStreamsAssignment.of(TestApplication.process(1), Set.of()),
                    KafkaStreamsAssignment.of(TestApplication.process(2), all)));
        }
    }

    @Test
    void theConfiguredFallbackPlans() {
        agent.status = 500;
        Map<String, ?> properties = Map.of(Settings.FALLBACK_CLASS, Own.class.getName(), "own.property", "mine");
        TaskAssignment found = assignor(properties).assign(application());
        assertEquals(3, tasks(found).get(TestApplication.process(2)).size());
    }

    @Test
    void theFallbackThatPlannedGetsTheOutcome() throws Exception {
        Own.OUTCOMES.clear();
        Map<String, ?> properties =
                Map.of(Settings.FALLBACK_CLASS, Own.class.getName(), "own.property", "mine", Settings.RETRY_MS, "0");
        agent.status = 500;
        AgentTaskAssignor assignor = assignor(properties);
        assignor.assign(application());
        assertNotNull(outcome(assignor));
        assertEquals(List.of(AssignmentError.NONE), Own.OUTCOMES);
        agent.status = 200;
        agent.answer = goodAnswer();
        assignor.assign(application());
        assertNotNull(outcome(assignor));
        assertEquals(1, Own.OUTCOMES.size());
    }

    @ParameterizedTest
    @ValueSource(classes = {
        Throwing.class, Sneaky.class, Asserting.class, Threadless.class, Unlinked.class, Recursive.class, Wrong.class
    })
    void aBrokenFallbackIsReplaced(Class<?> broken) {
        agent.status = 500;
        TaskAssignment found = assignor(Map.of(Settings.FALLBACK_CLASS, broken)).assign(application());
        assertEquals(tasks(new DefaultFallback().assign(application())), tasks(found));
        assertEquals(1, metrics().getFailedFallbacks());
    }

    @ParameterizedTest
    @ValueSource(classes = {Throwing.class, Sneaky.class, Asserting.class, Threadless.class, Unlinked.class, Recursive.class})
    void aFallbackThatCannotBeConfiguredIsReplaced(Class<?> broken) {
        agent.status = 500;
        Map<String, ?> properties = Map.of(Settings.FALLBACK_CLASS, broken.getName(), "fails.at", "configure");
        assertFellBack(assignor(properties).assign(application()));
        assertEquals(1, metrics().getConfigurationErrors());
    }

    /** Nothing can be read but tasks, clients and what they had. */
    @Test
    void whereNothingElseWorksTasksStayAndNewOnesAreDealt() {
        TestApplication whole = application();
        ApplicationState broken = new ApplicationState() {
            @Override
            public Map<ProcessId, KafkaStreamsState> kafkaStreamsStates(boolean computeTaskLags) {
                if (computeTaskLags) {
                    throw new IllegalStateException("no lags");
                }
                return whole.clients;
            }

            @Override
            public AssignmentConfigs assignmentConfigs() {
                throw new IllegalStateException("no configuration");
            }

            @Override
            public Map<TaskId, TaskInfo> allTasks() {
                return whole.tasks;
            }
        };
        TaskAssignment found = assignor(Map.of()).assign(broken);
        assertEquals(AssignmentError.NONE, TaskAssignmentUtils.validateTaskAssignment(whole, found));
        assertEquals(
                Set.of(new TaskId(0, 0), new TaskId(0, 1)),
                new TreeSet<>(tasks(found).get(TestApplication.process(1)).keySet()));
        assertEquals(Set.of(new TaskId(1, 0)), tasks(found).get(TestApplication.process(2)).keySet());
        assertEquals(1, metrics().getFallbacksForError());
        assertEquals(0, agent.questions.size());
    }

    @Test
    void wrongPropertiesAreCountedAndTheirDefaultsUsed() {
        Map<String, Object> properties = new HashMap<>(Map.of(
                Settings.TIMEOUT_MS, "soon",
                Settings.RETRY_MS, "-1",
                Settings.ASSIGNOR, "best",
                Settings.FALLBACK_CLASS, "no.such.Class"));
        agent.answer = goodAnswer();
        assignor(properties).assign(application());
        assignor(properties).assign(application());
        assertEquals(4, metrics().getConfigurationErrors());
        assertEquals(2, metrics().getAgentPlans());
    }

    @Test
    void theCountsAreVisibleToManagementPrograms() throws Exception {
        agent.answer = goodAnswer();
        assignor(Map.of()).assign(application());
        ObjectName bean = new ObjectName("io.samerack:type=AgentTaskAssignor,application=" + ObjectName.quote(name));
        assertEquals(1L, ManagementFactory.getPlatformMBeanServer().getAttribute(bean, "AgentPlans"));
        assertNotNull(ManagementFactory.getPlatformMBeanServer().getAttribute(bean, "LastAssignmentMilliseconds"));
    }

    @Test
    void theLicenseIsPackedWithTheClasses() throws Exception {
        Path classes = Path.of(AgentTaskAssignor.class.getProtectionDomain().getCodeSource().getLocation().toURI());
        assertTrue(Files.readString(classes.resolve("META-INF/LICENSE")).contains("Apache License"));
    }

    @Test
    void everyCauseHasACount() throws Exception {
        AssignorMetrics counts = metrics();
        for (Cause cause : Cause.values()) {
            counts.fellBack(new AgentException(cause, "for a test"));
        }
        long sum = 0;
        for (var method : AssignorMetricsMBean.class.getMethods()) {
            sum += method.getName().startsWith("getFallbacksFor") ? (long) method.invoke(counts) : 0;
        }
        assertEquals(Cause.values().length, sum);
        assertEquals(sum, counts.getFallbacks());
        assertFalse(counts.getFallbacks() == 0);
    }
}
