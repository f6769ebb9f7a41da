package io.samerack.streams;

/** Why the agent gave no plan that can be used. */
final class AgentException extends Exception {
    private static final long serialVersionUID = 1L;

    /** The kinds of causes, each with a count of its own. */
    enum Cause {
        /** Nothing listens at the address, or the connection broke. */
        NO_ANSWER,
        /** The answer was not there in time. */
        DEADLINE,
        /** The agent answered with an error. */
        REFUSED,
        /** The answer is in a version of the format that this jar does not know. */
        UNKNOWN_VERSION,
        /** The answer cannot be read. */
        UNREADABLE,
        /** The plan breaks a rule, so that Kafka Streams would stop its thread. */
        INVALID_PLAN,
        /** The agent was not asked, because it failed a short time ago. */
        BACKING_OFF,
        /** The thread was interrupted, as at the end of an application. */
        INTERRUPTED,
        /** Anything else: a bug. */
        ERROR
    }

    final transient Cause reason;

    AgentException(Cause reason, String message) {
        this(reason, message, null);
    }

    AgentException(Cause reason, String message, Throwable cause) {
        super(message, cause);
        this.reason = reason;
    }
}
