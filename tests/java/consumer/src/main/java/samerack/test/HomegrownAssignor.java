package samerack.test;

import org.apache.kafka.clients.consumer.RangeAssignor;

/** An assignor whose name nobody else offers: a group of members with this one alone refuses everybody else. */
public final class HomegrownAssignor extends RangeAssignor {

    @Override
    public String name() {
        return "homegrown";
    }
}
