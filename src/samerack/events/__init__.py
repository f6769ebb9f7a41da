"""Records what happened to groups, and why: in memory, in a file, over HTTP, and on a Kafka topic where configured.

`event` is one event, `event_log` what all parts of the agent write to and read from, `store` and `event_writer` the
file, `rebalances` and `cause` how a rebalance and its cause are found.
"""

from samerack.events.event import MAX_ASKED, Cause, Event, Kind
from samerack.events.event_log import EventLog

__all__ = ["MAX_ASKED", "Cause", "Event", "EventLog", "Kind"]
