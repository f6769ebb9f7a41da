package io.samerack.broker;

/**
 * {@link RackAwareTaskAssignor} for applications with much state: a task goes where its state is before racks count.
 *
 * <p>The prices are those of KIP-925 in Kafka's StickyTaskAssignor. Brokers of Kafka 4.4 have no warm-ups: a stateful task on
 * another process first reads its whole changelog.
 */
public final class RackAwareStickyTaskAssignor extends RackAwareTaskAssignor {
    /** Makes an assignor with the default settings. Kafka calls {@link #configure} next. */
    public RackAwareStickyTaskAssignor() {
        super("samerack-sticky", 1, 10);
    }
}
