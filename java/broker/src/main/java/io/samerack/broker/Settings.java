package io.samerack.broker;

import java.util.LinkedHashMap;
import java.util.Map;
import org.apache.kafka.common.config.ConfigException;

/**
 * The assignor's properties, which stand in the broker's own file beside {@code group.consumer.assignors}.
 *
 * <p>A wrong value never stops a broker: an assignor is a guest there, and a spelling mistake must not take a broker out
 * of service at its next restart. The default is used instead, the mistake is logged as an error, and
 * {@code ConfigurationErrors} of {@link AssignorMetricsMBean} counts it. Only a wrong name does: under its default the
 * broker would refuse members that ask for the name, and a name that two assignors have makes the coordinator fail to
 * load groups. Kafka cannot see that at its start: up to 4.3 it does not look, and 4.4 looks before it configures us.
 */
final class Settings {
    /** Which of balance, racks and moves matters most, then next, then last; the spread of each topic may come before. */
    static final String OBJECTIVES = "samerack.assignor.objectives";
    /** Partitions beyond its fair share that a member may have, so that fewer are read across racks. */
    static final String MAX_SKEW = "samerack.assignor.max.skew";
    /** Whether partition i of topics with equal partition counts and equal subscribers goes to one member. */
    static final String KEEP_COPARTITIONED = "samerack.assignor.keep.copartitioned";
    /** Elementary steps that one exact plan may take before a plain plan replaces it. */
    static final String MAX_STEPS = "samerack.assignor.max.steps";
    /** Rules for the most partitions that members may have, by instance id. */
    static final String MAX_PARTITIONS = "samerack.assignor.max.partitions";
    /** The name by which members ask for the assignor. */
    static final String NAME = "samerack.assignor.name";

    static final String DEFAULT_NAME = "samerack";
    static final long DEFAULT_MAX_STEPS = 400_000_000L;

    private static final String LINE = "group.consumer.assignors";
    private static final String KAFKAS = "org.apache.kafka.coordinator.group.assignor.";

    /** The orders of objectives that can be had. */
    enum Order {
        BALANCE_RACKS_MOVES("balance,racks,moves"),
        BALANCE_MOVES_RACKS("balance,moves,racks"),
        RACKS_BALANCE_MOVES("racks,balance,moves"),
        SPREAD_BALANCE_RACKS_MOVES("spread,balance,racks,moves");

        final String text;

        Order(String text) {
            this.text = text;
        }
    }

    final Order order;
    final int maxSkew;
    final boolean keepCopartitioned;
    final long maxSteps;
    final Limits limits;
    final String name;
    /** What was wrong, by property. */
    final Map<String, String> mistakes;

    private Settings(
            Order order,
            int maxSkew,
            boolean keepCopartitioned,
            long maxSteps,
            Limits limits,
            String name,
            Map<String, String> mistakes) {
        this.order = order;
        this.maxSkew = maxSkew;
        this.keepCopartitioned = keepCopartitioned;
        this.maxSteps = maxSteps;
        this.limits = limits;
        this.name = name;
        this.mistakes = mistakes;
    }

    static Settings defaults() {
        return of(Map.of());
    }

    /**
     * Reads the properties; wrong ones have their defaults, and are in {@link #mistakes}.
     *
     * @throws ConfigException the name is wrong
     */
    static Settings of(Map<String, ?> properties) {
        Map<String, String> mistakes = new LinkedHashMap<>();
        Order order = order(properties, mistakes);
        int maxSkew = (int) number(properties, MAX_SKEW, 0, 0, Integer.MAX_VALUE, mistakes);
        boolean keepCopartitioned = truth(properties, KEEP_COPARTITIONED, mistakes);
        long maxSteps = number(properties, MAX_STEPS, DEFAULT_MAX_STEPS, 1, Long.MAX_VALUE, mistakes);
        if (maxSkew > 0 && order != Order.BALANCE_RACKS_MOVES) {
            mistakes.put(MAX_SKEW, "it goes with " + OBJECTIVES + "=" + Order.BALANCE_RACKS_MOVES.text + " only");
            maxSkew = 0;
        }
        if (keepCopartitioned && (maxSkew > 0 || order == Order.RACKS_BALANCE_MOVES)) {
            mistakes.put(KEEP_COPARTITIONED, "topics kept together are always dealt evenly, so neither " + MAX_SKEW
                    + " nor " + OBJECTIVES + "=" + Order.RACKS_BALANCE_MOVES.text + " goes with it");
            keepCopartitioned = false;
        }
        Limits limits = limits(properties, mistakes);
        if (limits != Limits.OF_NOBODY && (keepCopartitioned || order == Order.SPREAD_BALANCE_RACKS_MOVES)) {
            mistakes.put(MAX_PARTITIONS, "each topic is dealt evenly then; take one of the two out, this or "
                    + (keepCopartitioned ? KEEP_COPARTITIONED : OBJECTIVES + "=" + order.text));
            limits = Limits.OF_NOBODY;
        }
        return new Settings(order, maxSkew, keepCopartitioned, maxSteps, limits, name(properties), mistakes);
    }

    /** Whether each topic is dealt evenly to its subscribers before all else; bundles of co-partitioned topics are so. */
    boolean isSpreadFirst() {
        return keepCopartitioned || order == Order.SPREAD_BALANCE_RACKS_MOVES;
    }

    /** Whether reading in the own rack comes before balance, within {@link #skew}. */
    boolean areRacksFirst() {
        return maxSkew > 0 || order == Order.RACKS_BALANCE_MOVES;
    }

    /** Partitions beyond its fair share that a member may have, as many as there are if balance comes second. */
    int skew() {
        return order == Order.RACKS_BALANCE_MOVES ? Integer.MAX_VALUE : maxSkew;
    }

    /** Whether members with equal subscriptions get equal numbers of partitions, or one more. */
    boolean areLoadsEven() {
        return !areRacksFirst() && !keepCopartitioned;
    }

    private static Order order(Map<String, ?> properties, Map<String, String> mistakes) {
        Object given = properties.get(OBJECTIVES);
        if (given == null) {
            return Order.BALANCE_RACKS_MOVES;
        }
        String text = given.toString().replace(" ", "");
        StringBuilder all = new StringBuilder();
        for (Order order : Order.values()) {
            if (order.text.equals(text)) {
                return order;
            }
            all.append(all.length() == 0 ? "" : "; ").append(order.text);
        }
        mistakes.put(OBJECTIVES, "\"" + given + "\" is none of: " + all);
        return Order.BALANCE_RACKS_MOVES;
    }

    private static Limits limits(Map<String, ?> properties, Map<String, String> mistakes) {
        Object given = properties.get(MAX_PARTITIONS);
        try {
            return given == null ? Limits.OF_NOBODY : new Limits(given.toString().split(","));
        } catch (IllegalArgumentException wrong) {
            mistakes.put(MAX_PARTITIONS, wrong.getMessage());
            return Limits.OF_NOBODY;
        }
    }

    private static String name(Map<String, ?> properties) {
        Object given = properties.get(NAME);
        if (given == null) {
            return DEFAULT_NAME;
        }
        String name = given.toString().trim();
        if (!name.matches("[A-Za-z0-9._-]+")) {
            throw new ConfigException(NAME, given, "a name has letters, digits, dots, dashes and underscores only; "
                    + "without the property it is " + DEFAULT_NAME);
        }
        for (String other : String.valueOf(properties.get(LINE)).split("[\\s,]+")) {
            if (other.equals(name) || other.equalsIgnoreCase(KAFKAS + name + "Assignor")) {
                throw new ConfigException(NAME, given, "Kafka's own assignor of this name is in " + LINE + "; take "
                        + other + " out there, or use another name");
            }
        }
        return name;
    }

    static long number(
            Map<String, ?> properties, String name, long otherwise, long least, long most, Map<String, String> mistakes) {
        Object given = properties.get(name);
        if (given == null) {
            return otherwise;
        }
        try {
            long value = Long.parseLong(given.toString().trim());
            if (value >= least && value <= most) {
                return value;
            }
        } catch (NumberFormatException noNumber) {
            // said below
        }
        mistakes.put(name, "\"" + given + "\" is no whole number from " + least + " to " + most);
        return otherwise;
    }

    private static boolean truth(Map<String, ?> properties, String name, Map<String, String> mistakes) {
        Object given = properties.get(name);
        if (given == null) {
            return false;
        }
        String text = given.toString().trim();
        if (!text.equalsIgnoreCase("true") && !text.equalsIgnoreCase("false")) {
            mistakes.put(name, "\"" + given + "\" is neither true nor false");
        }
        return text.equalsIgnoreCase("true");
    }
}
