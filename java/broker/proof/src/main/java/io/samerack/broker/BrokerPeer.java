package io.samerack.broker;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.coordinator.group.api.assignor.GroupAssignment;

/**
 * Answers groups with the brokers' assignor: one JSON object per line in, one out.
 *
 * <p>In: {@code brokers}, {@code topics} and {@code members}, as {@code samerack assign} takes them, and
 * {@code properties} of the assignor. Out: {@code {"assignment": {member: [[topic, partition], ...]}, "plain": whether a
 * plain plan replaced the exact one}}.
 */
public final class BrokerPeer {
    private static final ObjectMapper JSON = new ObjectMapper();

    private BrokerPeer() {}

    /**
     * Answers until its input ends.
     *
     * @param arguments none
     * @throws IOException the input cannot be read
     */
    public static void main(String[] arguments) throws IOException {
        BufferedReader questions = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        PrintStream answers = new PrintStream(System.out, true, StandardCharsets.UTF_8);
        for (String line = questions.readLine(); line != null; line = questions.readLine()) {
            answers.println(JSON.writeValueAsString(answer(JSON.readTree(line))));
        }
    }

    private static Map<String, Object> answer(JsonNode question) {
        Map<Integer, String> racks = new HashMap<>();
        question.get("brokers").forEach(broker -> racks.put(
                broker.get("id").asInt(), broker.path("rack").isTextual() ? broker.get("rack").asText() : null));
        ProofGroup group = new ProofGroup();
        Map<String, Uuid> ids = new TreeMap<>();
        Map<Uuid, String> names = new HashMap<>();
        question.get("topics").fieldNames().forEachRemaining(name -> ids.put(name, null));
        for (String name : ids.keySet()) {
            Uuid id = ProofGroup.topic(names.size());
            ids.put(name, id);
            names.put(id, name);
            List<Set<String>> partitions = new ArrayList<>();
            for (JsonNode replicas : question.get("topics").get(name)) {
                Set<String> of = new HashSet<>();
                replicas.forEach(broker -> of.add(racks.get(broker.asInt())));
                of.remove(null);
                partitions.add(of);
            }
            group.topics.put(id, partitions);
        }
        question.get("members").forEach(member -> group.members.put(member.get("id").asText(), member(member, ids)));
        Map<String, Object> properties = new HashMap<>();
        question.path("properties").fields().forEachRemaining(
                property -> properties.put(property.getKey(), property.getValue().asText()));
        long before = Proof.plainPlans();
        GroupAssignment plan = group.assign(Proof.assignor(properties));
        Map<String, List<Object>> assignment = new TreeMap<>();
        plan.members().forEach((id, given) -> {
            List<Object> pairs = new ArrayList<>();
            given.partitions().forEach((topic, numbers) ->
                    numbers.forEach(number -> pairs.add(List.of(names.get(topic), number))));
            assignment.put(id, pairs);
        });
        return Map.of("assignment", assignment, "plain", Proof.plainPlans() > before);
    }

    private static ProofGroup.Member member(JsonNode from, Map<String, Uuid> ids) {
        ProofGroup.Member member = new ProofGroup.Member();
        member.rack = from.path("rack").isTextual() ? from.get("rack").asText() : null;
        member.instance = from.path("instance_id").isTextual() ? from.get("instance_id").asText() : null;
        from.get("topics").forEach(name -> {
            if (ids.containsKey(name.asText())) {
                member.topics.add(ids.get(name.asText()));
            }
        });
        from.path("owned").forEach(pair -> member.owned
                .computeIfAbsent(ids.get(pair.get(0).asText()), key -> new HashSet<>())
                .add(pair.get(1).asInt()));
        return member;
    }
}
