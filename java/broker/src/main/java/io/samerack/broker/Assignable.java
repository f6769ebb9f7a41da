package io.samerack.broker;

import org.apache.kafka.common.Uuid;
import org.apache.kafka.coordinator.group.api.assignor.GroupSpec;

/** Asks whether a partition may be assigned. Kafka has this question from 4.1 on; before, every partition may be. */
final class Assignable {
    private static volatile boolean known = true;

    private Assignable() {}

    static boolean isAssignable(GroupSpec spec, Uuid topic, int partition) {
        if (!known) {
            return true;
        }
        try {
            return spec.isPartitionAssignable(topic, partition);
        } catch (NoSuchMethodError | AbstractMethodError olderKafka) {
            known = false;
            return true;
        }
    }
}
