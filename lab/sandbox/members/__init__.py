"""Members of consumer groups, one program per client library, that print their events as JSON lines.

Run one by hand: `python -m lab.sandbox.members.confluent --bootstrap … --group … --topics a,b --client-id … [--rack …]`
Those on clients of other languages are in tests/clients (`lab.sandbox.members.programs`). All of them commit about once
a second (kafkajs after each batch), when partitions are revoked and when SIGTERM ends them, so that an orderly restart
reads nothing twice; none commits a record before it has printed it as read. The lines, each with `event`, `ms`
(milliseconds of the wall clock) and `ns` (nanoseconds of the monotonic clock, which all processes of a machine share;
`java.lang.System.nanoTime` is the same one on Linux):

    started     client, client_id
    joined      generation: a new one that no other line has reported
    assigned    partitions: those new to the member, as [topic, partition] pairs; in an eager group all that it has;
                generation
    revoked     partitions, generation
    lost        partitions, generation
    records     topic, partition, first, last, count: consecutive reads, gathered for at most a tenth of a second;
                begun_ns, ended_ns: when the first and the last was read
    committed   offsets: [topic, partition, offset] that the coordinator has confirmed (kafka-python: those of its
                regular commits only; aiokafka and kafka-python 2 print none)
    statistics  brokers: broker id -> bytes received since the start (confluent and Java); message: for a Streams
                application, whether its consumers of sources or those of changelogs received them
    state       message: the state of a Kafka Streams application
    tasks       message: what an instance of a Streams application runs, as ACTIVE,ACTIVE;STANDBY,STANDBY
    rebalanced  count, message: rebalances of an instance of a Streams application, and the longest one in milliseconds
    counted     message, count: how many records of a partition a stateful application has counted until now
    error       message
    closed

The programs on Java and librdkafka run several members in one process where `--client-id`, and `--rack` if it is given,
name several, separated by commas; then `member` in each line names the member.

Programs that ask a group's coordinator for its offsets record them in lines `kept`, with `offsets` as in `committed`.
The feeder's lines are `written`, with the fields of `records`: offsets that brokers have confirmed.
"""
