"""Converts bytes to values and back: the consumer protocol that Kafka clients embed in JoinGroup and SyncGroup.

No I/O, no clock, no log.
"""
