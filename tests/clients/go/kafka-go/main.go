// A group member on segmentio's kafka-go. Its Reader does not report what it is assigned, so this is the ConsumerGroup that
// the Reader itself is built on, with one Reader for each partition. Its subscription carries no rack; it has no static
// members.
package main

import (
	"context"
	"errors"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"github.com/segmentio/kafka-go"

	"samerack/clients/lines"
)

var balancers = map[string]kafka.GroupBalancer{
	"range":      kafka.RangeGroupBalancer{},
	"roundrobin": kafka.RoundRobinGroupBalancer{},
}

type member struct {
	settings lines.Settings
	dialer   *kafka.Dialer
	recorder *lines.Recorder

	mutex  sync.Mutex
	marked map[string]map[int]int64 // printed, and not yet committed
}

func main() {
	settings := lines.Parse()
	if settings.InstanceID != "" {
		lines.Fail("kafka-go has no static members")
	}
	ended, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	m := &member{
		settings: settings,
		dialer:   &kafka.Dialer{ClientID: settings.ClientID, Timeout: 10 * time.Second, DualStack: true},
		marked:   map[string]map[int]int64{},
	}
	m.recorder = lines.NewRecorder(m.mark)
	group, err := kafka.NewConsumerGroup(m.configuration())
	if err != nil {
		lines.Fail("%v", err)
	}
	m.recorder.Started("kafka-go", settings.ClientID)
	var last sync.WaitGroup
	for {
		generation, err := group.Next(ended)
		if ended.Err() != nil {
			break
		}
		if err != nil {
			m.recorder.Error(err)
			continue // Next waits before it tries again
		}
		last.Wait()
		last.Add(1)
		m.assigned(generation)
		generation.Start(func(ctx context.Context) {
			defer last.Done()
			m.consume(ctx, ended, generation)
		})
	}
	last.Wait() // it has committed by now
	m.recorder.Error(group.Close())
	m.recorder.Closed()
}

func (m *member) configuration() kafka.ConsumerGroupConfig {
	config := kafka.ConsumerGroupConfig{
		ID:                    m.settings.Group,
		Brokers:               m.settings.Bootstrap,
		Topics:                m.settings.Topics,
		Dialer:                m.dialer,
		GroupBalancers:        lines.Choose(m.settings.Assignors, balancers),
		StartOffset:           kafka.FirstOffset,
		WatchPartitionChanges: true,
	}
	durations := map[string]*time.Duration{
		"session.timeout.ms":    &config.SessionTimeout,
		"heartbeat.interval.ms": &config.HeartbeatInterval,
		"max.poll.interval.ms":  &config.RebalanceTimeout,
	}
	for name, target := range durations {
		if value, given := m.settings.Milliseconds(name); given {
			*target = value
		}
	}
	return config
}

func (m *member) assigned(generation *kafka.Generation) {
	m.mutex.Lock()
	m.marked = map[string]map[int]int64{}
	m.mutex.Unlock()
	m.recorder.Partitions("assigned", topics(generation), generation.ID)
}

func topics(generation *kafka.Generation) map[string][]int32 {
	found := map[string][]int32{}
	for topic, assignments := range generation.Assignments {
		for _, assignment := range assignments {
			found[topic] = append(found[topic], int32(assignment.ID))
		}
	}
	return found
}

// consume reads everything that a generation gives until it or the program ends, then commits.
func (m *member) consume(ctx context.Context, ended context.Context, generation *kafka.Generation) {
	reading, cancel := context.WithCancel(ctx)
	defer cancel()
	var readers sync.WaitGroup
	for topic, assignments := range generation.Assignments {
		for _, assignment := range assignments {
			readers.Add(1)
			go func() {
				defer readers.Done()
				m.read(reading, topic, assignment)
			}()
		}
	}
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	committed := time.Now()
	for ctx.Err() == nil && ended.Err() == nil {
		select {
		case <-tick.C:
			m.recorder.FlushIfDue()
			if time.Since(committed) >= time.Second {
				committed = time.Now()
				m.commit(generation)
			}
		case <-ctx.Done():
		case <-ended.Done():
		}
	}
	cancel()
	readers.Wait()
	m.recorder.Flush()
	m.commit(generation)
	m.recorder.Partitions("revoked", topics(generation), generation.ID)
}

func (m *member) read(ctx context.Context, topic string, assignment kafka.PartitionAssignment) {
	reader := kafka.NewReader(kafka.ReaderConfig{
		Brokers:   m.settings.Bootstrap,
		Topic:     topic,
		Partition: assignment.ID,
		Dialer:    m.dialer,
		MinBytes:  1,
		MaxBytes:  1 << 20,
		MaxWait:   200 * time.Millisecond,
	})
	defer reader.Close()
	if err := reader.SetOffset(assignment.Offset); err != nil {
		m.recorder.Error(err)
		return
	}
	partition := lines.Partition{Topic: topic, Number: int32(assignment.ID)}
	for ctx.Err() == nil {
		message, err := reader.ReadMessage(ctx)
		switch {
		case err == nil:
			m.recorder.Read(partition, message.Offset)
		case ctx.Err() != nil:
			return
		default:
			m.recorder.Error(err)
			if !errors.Is(err, context.DeadlineExceeded) {
				time.Sleep(100 * time.Millisecond)
			}
		}
	}
}

// mark notes what may be committed.
func (m *member) mark(partition lines.Partition, next int64) {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	if m.marked[partition.Topic] == nil {
		m.marked[partition.Topic] = map[int]int64{}
	}
	m.marked[partition.Topic][int(partition.Number)] = next
}

func (m *member) commit(generation *kafka.Generation) {
	m.mutex.Lock()
	marked := m.marked
	m.marked = map[string]map[int]int64{}
	m.mutex.Unlock()
	if len(marked) == 0 {
		return
	}
	if err := generation.CommitOffsets(marked); err != nil {
		return // whoever is next reads from the commit before
	}
	confirmed := map[lines.Partition]int64{}
	for topic, offsets := range marked {
		for number, next := range offsets {
			confirmed[lines.Partition{Topic: topic, Number: int32(number)}] = next
		}
	}
	m.recorder.Committed(confirmed)
}
