"""Bytes <-> values: the consumer protocol that Kafka clients embed in JoinGroup and SyncGroup.

No I/O, no clock, no log.
"""
