package io.samerack.broker;

import java.util.Arrays;

/**
 * A minimum-cost flow on arrays of integers, by shortest paths with node prices and blocking flows (primal-dual).
 *
 * <p>Costs are not negative, so the flow starts with prices of zero and fills the free paths first. Each round raises the
 * prices by the distances from the source and then fills all paths of that length at once. The costs of assignments are
 * small, so there are few different lengths and few rounds, however many units flow.
 */
final class FlowNetwork {
    private final Steps steps;
    private int nodes;
    private int arcs;
    private int[] out = new int[256];
    private int[] head = new int[1024];
    private int[] next = new int[1024];
    private int[] residual = new int[1024];
    private long[] cost = new long[1024];
    private long[] price;
    private long[] distance;
    private int[] level;
    private int[] current;
    private int[] queue;
    private int[] path;
    private long[] heapKey = new long[256];
    private int[] heapNode = new int[256];
    private int heapSize;

    FlowNetwork(Steps steps) {
        this.steps = steps;
    }

    /** Adds a node and returns its number. */
    int node() {
        if (nodes == out.length) {
            out = Arrays.copyOf(out, 2 * nodes);
        }
        out[nodes] = -1;
        return nodes++;
    }

    /** Adds a number of nodes and returns the first one's. */
    int nodes(int count) {
        int firstOne = nodes;
        for (int index = 0; index < count; index++) {
            node();
        }
        return firstOne;
    }

    /** Adds an arc and returns its number. */
    int arc(int from, int to, int capacity, long unitCost) {
        if (arcs + 2 > head.length) {
            int length = 2 * head.length;
            head = Arrays.copyOf(head, length);
            next = Arrays.copyOf(next, length);
            residual = Arrays.copyOf(residual, length);
            cost = Arrays.copyOf(cost, length);
        }
        half(from, to, capacity, unitCost);
        half(to, from, 0, -unitCost);
        return arcs - 2;
    }

    private void half(int from, int to, int capacity, long unitCost) {
        head[arcs] = to;
        residual[arcs] = capacity;
        cost[arcs] = unitCost;
        next[arcs] = out[from];
        out[from] = arcs++;
    }

    /** Returns the units on an arc. */
    int flow(int arc) {
        return residual[arc + 1];
    }

    /** Takes one unit off the flow from a node, up to the first node below a bound, and returns that one. */
    int follow(int from, int bound) {
        int node = from;
        while (node >= bound) {
            int arc = out[node];
            while (arc % 2 == 1 || residual[arc + 1] == 0) { // odd arcs lead back
                arc = next[arc];
            }
            residual[arc]++;
            residual[arc + 1]--;
            node = head[arc];
        }
        return node;
    }

    /** Says whether an arc can carry no more. */
    boolean isFull(int arc) {
        return residual[arc] == 0;
    }

    /** Returns how much more an arc can carry. */
    int left(int arc) {
        return residual[arc];
    }

    /** Lets an arc carry more. */
    void widen(int arc, int capacity) {
        residual[arc] += capacity;
    }

    /** Returns a node's price: no arc that can carry more costs less than the difference of its ends' prices. */
    long price(int node) {
        return price[node];
    }

    /** Sends as many units as the arcs can carry, at least cost, and returns how many. */
    int send(int source, int sink) {
        return send(source, sink, () -> {});
    }

    /**
     * Sends as many units as the arcs can carry, at least cost, and returns how many.
     *
     * @param afterRound called when all paths of one length are full; it may add arcs that cost no less than the full
     *     arcs beside them
     */
    int send(int source, int sink, Runnable afterRound) {
        prepare();
        int sent = fill(source, sink);
        afterRound.run();
        while (raisePrices(source, sink)) {
            int more = fill(source, sink);
            if (more == 0) {
                throw new IllegalStateException("prices rose but no path was found");
            }
            sent += more;
            afterRound.run();
        }
        return sent;
    }

    /** Returns the nodes that units from the source could still reach, after {@link #send}. */
    boolean[] reachable(int source) {
        boolean[] reached = new boolean[nodes];
        int end = 0;
        reached[source] = true;
        queue[end++] = source;
        for (int begin = 0; begin < end; begin++) {
            for (int arc = out[queue[begin]]; arc >= 0; arc = next[arc]) {
                if (residual[arc] > 0 && !reached[head[arc]]) {
                    reached[head[arc]] = true;
                    queue[end++] = head[arc];
                }
            }
        }
        return reached;
    }

    /** Returns the nodes that units from some nodes could still reach, by way of nodes below {@code bound} only. */
    boolean[] reachableBelow(int bound, int[] starts) {
        boolean[] reached = new boolean[bound];
        int end = 0;
        for (int start : starts) {
            reached[start] = true;
            queue[end++] = start;
        }
        for (int begin = 0; begin < end; begin++) {
            for (int arc = out[queue[begin]]; arc >= 0; arc = next[arc]) {
                if (head[arc] < bound && residual[arc] > 0 && !reached[head[arc]]) {
                    reached[head[arc]] = true;
                    queue[end++] = head[arc];
                }
            }
        }
        return reached;
    }

    private void prepare() {
        if (price == null || price.length != nodes) {
            price = new long[nodes];
            distance = new long[nodes];
            level = new int[nodes];
            current = new int[nodes];
            queue = new int[nodes];
            path = new int[nodes];
        }
    }

    private int fill(int source, int sink) {
        int sent = 0;
        while (layered(source, sink)) {
            System.arraycopy(out, 0, current, 0, nodes);
            sent += blockingFlow(source, sink);
        }
        return sent;
    }

    /** Finds each node's number of arcs from the source over arcs without reduced cost; says whether the sink has one. */
    private boolean layered(int source, int sink) {
        Arrays.fill(level, 0, nodes, -1);
        int end = 0;
        long seen = 0;
        level[source] = 0;
        queue[end++] = source;
        for (int begin = 0; begin < end; begin++) {
            int from = queue[begin];
            if (level[sink] >= 0 && level[from] >= level[sink]) {
                break;
            }
            long base = price[from];
            for (int arc = out[from]; arc >= 0; arc = next[arc]) {
                seen++;
                int to = head[arc];
                if (residual[arc] > 0 && level[to] < 0 && cost[arc] + base - price[to] == 0) {
                    level[to] = level[from] + 1;
                    queue[end++] = to;
                }
            }
        }
        steps.take(seen + nodes);
        return level[sink] >= 0;
    }

    private int blockingFlow(int source, int sink) {
        int sent = 0;
        int depth = 0;
        int at = source;
        long seen = 0;
        while (true) {
            if (at == sink) {
                int units = Integer.MAX_VALUE;
                for (int index = 0; index < depth; index++) {
                    units = Math.min(units, residual[path[index]]);
                }
                int back = depth;
                for (int index = depth - 1; index >= 0; index--) {
                    int arc = path[index];
                    residual[arc] -= units;
                    residual[arc ^ 1] += units;
                    if (residual[arc] == 0) {
                        back = index;
                    }
                }
                seen += depth;
                sent += units;
                depth = back;
                at = head[path[back] ^ 1];
                continue;
            }
            int arc = current[at];
            while (arc >= 0
                    && !(residual[arc] > 0
                            && level[head[arc]] == level[at] + 1
                            && cost[arc] + price[at] - price[head[arc]] == 0)) {
                arc = next[arc];
                seen++;
            }
            current[at] = arc;
            if (arc >= 0) {
                path[depth++] = arc;
                at = head[arc];
            } else if (at == source) {
                steps.take(seen);
                return sent;
            } else {
                level[at] = -1;
                at = head[path[--depth] ^ 1];
            }
        }
    }

    /** Adds the distances from the source, up to the sink's, to the prices; says whether the sink can be reached. */
    private boolean raisePrices(int source, int sink) {
        Arrays.fill(distance, 0, nodes, Long.MAX_VALUE);
        heapSize = 0;
        distance[source] = 0;
        push(0, source);
        long limit = Long.MAX_VALUE;
        long seen = 0;
        while (heapSize > 0) {
            long key = heapKey[0];
            int from = heapNode[0];
            pop();
            if (key > distance[from]) {
                continue;
            }
            if (from == sink) {
                limit = key;
                break;
            }
            for (int arc = out[from]; arc >= 0; arc = next[arc]) {
                seen++;
                if (residual[arc] > 0) {
                    int to = head[arc];
                    long reached = key + cost[arc] + price[from] - price[to];
                    if (reached < distance[to]) {
                        distance[to] = reached;
                        push(reached, to);
                    }
                }
            }
        }
        steps.take(seen + nodes);
        if (limit == Long.MAX_VALUE) {
            return false;
        }
        for (int node = 0; node < nodes; node++) {
            price[node] += Math.min(distance[node], limit);
        }
        return true;
    }

    private void push(long key, int node) {
        if (heapSize == heapKey.length) {
            heapKey = Arrays.copyOf(heapKey, 2 * heapSize);
            heapNode = Arrays.copyOf(heapNode, 2 * heapSize);
        }
        int place = heapSize++;
        while (place > 0 && key < heapKey[(place - 1) / 2]) {
            heapKey[place] = heapKey[(place - 1) / 2];
            heapNode[place] = heapNode[(place - 1) / 2];
            place = (place - 1) / 2;
        }
        heapKey[place] = key;
        heapNode[place] = node;
    }

    private void pop() {
        heapSize--;
        long key = heapKey[heapSize];
        int node = heapNode[heapSize];
        int place = 0;
        while (2 * place + 1 < heapSize) {
            int child = 2 * place + 1;
            if (child + 1 < heapSize && heapKey[child + 1] < heapKey[child]) {
                child++;
            }
            if (heapKey[child] >= key) {
                break;
            }
            heapKey[place] = heapKey[child];
            heapNode[place] = heapNode[child];
            place = child;
        }
        heapKey[place] = key;
        heapNode[place] = node;
    }
}
