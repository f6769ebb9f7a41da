"""Members of consumer groups, one program per client library, that print what happens to them as JSON lines.

Run one by hand: `python -m sandbox.members.confluent --bootstrap … --group … --topics a,b --client-id … [--rack …]`.
All of them commit about once a second, when partitions are revoked and when SIGTERM ends them, so that a restart in
good order reads nothing twice; none commits what it has not told as read. The lines, each with `event`, `ms`
(milliseconds of the clock on the wall) and `ns` (nanoseconds of the clock that all processes of a machine share and
that never jumps; `java.lang.System.nanoTime` is the same one on Linux):

    started     client, client_id
    joined      generation: another than the last one told, while nothing else told it
    assigned    partitions: what is new to the member, as [topic, partition] pairs; for an eager group everything it
                has; generation
    revoked     partitions, generation
    lost        partitions, generation
    records     topic, partition, first, last, count: consecutive reads, gathered for at most a tenth of a second;
                begun_ns, ended_ns: when the first and the last was read
    committed   offsets: [topic, partition, offset] that the coordinator has confirmed (kafka-python: those of its
                regular commits only; aiokafka tells none)
    statistics  brokers: broker id -> bytes received since the start (confluent and Java)
    error       message
    closed

The feeder's lines are `written`, with the fields of `records`: offsets that brokers have confirmed.
"""
