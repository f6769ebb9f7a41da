// A group member on franz-go. By default it offers cooperative-sticky alone.
package main

import (
	"context"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"samerack/clients/lines"
)

var balancers = map[string]kgo.GroupBalancer{
	"range":              kgo.RangeBalancer(),
	"roundrobin":         kgo.RoundRobinBalancer(),
	"sticky":             kgo.StickyBalancer(),
	"cooperative-sticky": kgo.CooperativeStickyBalancer(),
}

type member struct {
	client   *kgo.Client
	recorder *lines.Recorder
	epochs   sync.Map // lines.Partition to the leader epoch of its last record: a mark of an older epoch is ignored
}

func main() {
	settings := lines.Parse()
	ended, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	m := &member{}
	m.recorder = lines.NewRecorder(func(partition lines.Partition, next int64) {
		epoch, _ := m.epochs.Load(partition)
		m.client.MarkCommitOffsets(map[string]map[int32]kgo.EpochOffset{
			partition.Topic: {partition.Number: {Epoch: epoch.(int32), Offset: next}},
		})
	})
	client, err := kgo.NewClient(m.options(settings)...)
	if err != nil {
		lines.Fail("%v", err)
	}
	m.client = client
	m.recorder.Started("franz-go", settings.ClientID)
	m.consume(ended)
	m.recorder.Flush()
	client.CloseAllowingRebalance() // revokes, which commits, and leaves
	m.recorder.Closed()
}

func (m *member) options(settings lines.Settings) []kgo.Opt {
	options := []kgo.Opt{
		kgo.SeedBrokers(settings.Bootstrap...),
		kgo.ConsumerGroup(settings.Group),
		kgo.ConsumeTopics(settings.Topics...),
		kgo.ClientID(settings.ClientID),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.AutoCommitMarks(),
		kgo.AutoCommitInterval(time.Second),
		kgo.AutoCommitCallback(m.committed),
		kgo.FetchMaxWait(200 * time.Millisecond),
		kgo.BlockRebalanceOnPoll(), // what a poll returned is printed before anything is revoked
		kgo.OnPartitionsAssigned(func(_ context.Context, _ *kgo.Client, topics map[string][]int32) {
			m.recorder.Partitions("assigned", topics, m.generation())
		}),
		kgo.OnPartitionsRevoked(func(ctx context.Context, client *kgo.Client, topics map[string][]int32) {
			m.recorder.Flush()
			if marked := client.MarkedOffsets(); len(marked) > 0 {
				client.CommitOffsetsSync(ctx, marked, m.committed)
			}
			m.recorder.Partitions("revoked", topics, m.generation())
		}),
		kgo.OnPartitionsLost(func(_ context.Context, _ *kgo.Client, topics map[string][]int32) {
			m.recorder.Partitions("lost", topics, m.generation())
		}),
	}
	if settings.Rack != "" {
		options = append(options, kgo.Rack(settings.Rack))
	}
	if settings.InstanceID != "" {
		options = append(options, kgo.InstanceID(settings.InstanceID))
	}
	if settings.NewProtocol() {
		options = append(options, kgo.ServerSideBalancer())
	}
	if chosen := lines.Choose(settings.Assignors, balancers); len(chosen) > 0 {
		options = append(options, kgo.Balancers(chosen...))
	}
	durations := map[string]func(time.Duration) kgo.GroupOpt{
		"session.timeout.ms":    kgo.SessionTimeout,
		"heartbeat.interval.ms": kgo.HeartbeatInterval,
		"max.poll.interval.ms":  kgo.RebalanceTimeout,
	}
	for name, option := range durations {
		if value, given := settings.Milliseconds(name); given {
			options = append(options, option(value))
		}
	}
	return options
}

func (m *member) consume(ended context.Context) {
	for ended.Err() == nil {
		turn, cancel := context.WithTimeout(ended, 50*time.Millisecond)
		fetches := m.client.PollFetches(turn)
		cancel()
		fetches.EachError(func(_ string, _ int32, err error) {
			if turn.Err() == nil {
				m.recorder.Error(err)
			}
		})
		fetches.EachRecord(func(record *kgo.Record) {
			partition := lines.Partition{Topic: record.Topic, Number: record.Partition}
			m.epochs.Store(partition, record.LeaderEpoch)
			m.recorder.Read(partition, record.Offset)
		})
		m.recorder.Flush()
		m.recorder.Generation(m.generation())
		m.client.AllowRebalance()
	}
}

func (m *member) generation() int32 {
	_, generation := m.client.GroupMetadata()
	return generation
}

// committed prints what the coordinator confirmed of a commit.
func (m *member) committed(
	_ *kgo.Client, asked *kmsg.OffsetCommitRequest, answer *kmsg.OffsetCommitResponse, err error,
) {
	if err != nil || answer == nil {
		return // whoever is next reads from the commit before
	}
	refused := map[lines.Partition]bool{}
	for _, topic := range answer.Topics {
		for _, partition := range topic.Partitions {
			refused[lines.Partition{Topic: topic.Topic, Number: partition.Partition}] =
				kerr.ErrorForCode(partition.ErrorCode) != nil
		}
	}
	confirmed := map[lines.Partition]int64{}
	for _, topic := range asked.Topics {
		for _, partition := range topic.Partitions {
			known := lines.Partition{Topic: topic.Topic, Number: partition.Partition}
			if failed, answered := refused[known]; answered && !failed {
				confirmed[known] = partition.Offset
			}
		}
	}
	m.recorder.Committed(confirmed)
}
