package io.samerack.broker;

import java.util.HashMap;
import java.util.Map;
import org.apache.kafka.coordinator.group.api.assignor.GroupAssignment;
import org.apache.kafka.coordinator.group.api.assignor.MemberAssignment;

/** The plan in which everybody keeps what it has. */
final class Staying {
    private Staying() {}

    static GroupAssignment plan(ProofGroup group) {
        Map<String, MemberAssignment> plan = new HashMap<>();
        group.members.forEach((id, member) -> {
            ProofGroup.Member copy = new ProofGroup.Member();
            copy.owned = member.owned;
            plan.put(id, copy);
        });
        return new GroupAssignment(plan);
    }
}
