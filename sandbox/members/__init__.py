"""Members of consumer groups, one program per client library, that print what happens to them as JSON lines.

Run one by hand: `python -m sandbox.members.confluent --bootstrap … --group … --topics a,b --client-id … [--rack …]`.
All of them commit about once a second, when partitions are revoked and when SIGTERM ends them, so that a restart in
good order reads nothing twice. The lines, each with `event` and `ms` (milliseconds of the clock on the wall):

    started     client, client_id
    assigned    partitions: what is new to the member, as [topic, partition] pairs; for an eager group everything it has
    revoked     partitions
    lost        partitions
    records     topic, partition, first, last, count: consecutive reads, gathered for at most a tenth of a second
    statistics  brokers: broker id -> bytes received since the start (confluent and Java)
    error       message
    closed
"""
