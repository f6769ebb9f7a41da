"""What happened to groups, and why: kept for people in memory and in a file, told over HTTP, and to Kafka where asked.

`model` is one event, `book` what all parts of the agent write to and read from, `store` and `keeper` the file,
`rebalances` and `cause` how a rebalance and its cause are found.
"""

from agent.events.event_log import EventLog
from agent.events.model import MOST_ASKED, Cause, Event, Kind

__all__ = ["MOST_ASKED", "Cause", "Event", "EventLog", "Kind"]
