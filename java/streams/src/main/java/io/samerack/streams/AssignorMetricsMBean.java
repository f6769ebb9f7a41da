package io.samerack.streams;

/**
 * What the assignor counts since the process started, as the MBean
 * {@code io.samerack:type=AgentTaskAssignor,application="..."}. Only the process that leads the group counts anything.
 */
public interface AssignorMetricsMBean {
    /**
     * Assignments that Kafka Streams asked for.
     *
     * @return a count
     */
    long getAssignments();

    /**
     * Assignments that are the agent's plan.
     *
     * @return a count
     */
    long getAgentPlans();

    /**
     * Assignments of the fall-back, whatever the cause.
     *
     * @return a count
     */
    long getFallbacks();

    /**
     * Fall-backs because nothing answered at the agent's address.
     *
     * @return a count
     */
    long getFallbacksForNoAnswer();

    /**
     * Fall-backs because the agent did not answer in time.
     *
     * @return a count
     */
    long getFallbacksForDeadline();

    /**
     * Fall-backs because the agent answered with an error.
     *
     * @return a count
     */
    long getFallbacksForRefusal();

    /**
     * Fall-backs because the agent's answer has a version that this jar does not know.
     *
     * @return a count
     */
    long getFallbacksForUnknownVersion();

    /**
     * Fall-backs because the agent's answer could not be read.
     *
     * @return a count
     */
    long getFallbacksForUnreadableAnswer();

    /**
     * Fall-backs because the agent's plan breaks a rule of Kafka Streams.
     *
     * @return a count
     */
    long getFallbacksForInvalidPlan();

    /**
     * Fall-backs without a question, since the agent had failed a short time before.
     *
     * @return a count
     */
    long getFallbacksForPause();

    /**
     * Fall-backs because the thread was interrupted, or because of a bug, of which the log has the stack trace.
     *
     * @return a count
     */
    long getFallbacksForError();

    /**
     * Fall-backs that failed themselves, so that a plain assignment replaced them.
     *
     * @return a count
     */
    long getFailedFallbacks();

    /**
     * Properties with wrong values, whose defaults are used; the log names them.
     *
     * @return a count
     */
    long getConfigurationErrors();

    /**
     * Time of the last assignment, from Kafka Streams' call to its return.
     *
     * @return milliseconds
     */
    double getLastAssignmentMilliseconds();

    /**
     * Time of the longest assignment.
     *
     * @return milliseconds
     */
    double getLongestAssignmentMilliseconds();
}
