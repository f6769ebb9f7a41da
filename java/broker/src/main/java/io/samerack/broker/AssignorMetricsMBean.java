package io.samerack.broker;

/**
 * What the assignor counts since the broker started, as the MBean {@code io.samerack:type=RackAwareAssignor}.
 */
public interface AssignorMetricsMBean {
    /**
     * Assignments computed, exact and plain, by all threads. The coordinator may drop one that comes too late; it counts.
     *
     * @return a count
     */
    long getAssignments();

    /**
     * Plain plans because the exact one would have taken more steps than allowed.
     *
     * @return a count
     */
    long getPlainPlansForWorkBound();

    /**
     * Plain plans because the exact one failed: too little memory, or a bug, whose stack trace is in the log.
     *
     * @return a count
     */
    long getPlainPlansForError();

    /**
     * Plain plans because the exact one failed the check that ends each assignment: a bug.
     *
     * @return a count
     */
    long getPlainPlansForFailedCheck();

    /**
     * Properties with wrong values, whose defaults are used; the log names them.
     *
     * @return a count
     */
    long getConfigurationErrors();

    /**
     * Time of the assignment that ended last, whichever thread computed it.
     *
     * @return milliseconds
     */
    double getLastAssignmentMilliseconds();

    /**
     * Time of the longest assignment of all threads.
     *
     * @return milliseconds
     */
    double getLongestAssignmentMilliseconds();
}
