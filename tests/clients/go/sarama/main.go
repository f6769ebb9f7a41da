// A group member on sarama. Its subscription carries no rack, whatever rack it fetches with.
package main

import (
	"context"
	"errors"
	"io"
	"log"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"github.com/IBM/sarama"

	"samerack/clients/lines"
)

var strategies = map[string]sarama.BalanceStrategy{
	"range":      sarama.NewBalanceStrategyRange(),
	"roundrobin": sarama.NewBalanceStrategyRoundRobin(),
	"sticky":     sarama.NewBalanceStrategySticky(),
}

type member struct {
	group    string
	recorder *lines.Recorder
	admin    sarama.ClusterAdmin

	mutex   sync.Mutex
	session sarama.ConsumerGroupSession // nil between two generations
}

func main() {
	settings := lines.Parse()
	sarama.Logger = log.New(io.Discard, "", 0)
	ended, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	m := &member{group: settings.Group}
	m.recorder = lines.NewRecorder(m.mark)
	client, err := sarama.NewClient(settings.Bootstrap, configuration(settings))
	if err != nil {
		lines.Fail("%v", err)
	}
	m.admin, err = sarama.NewClusterAdminFromClient(client)
	if err != nil {
		lines.Fail("%v", err)
	}
	group, err := sarama.NewConsumerGroupFromClient(settings.Group, client)
	if err != nil {
		lines.Fail("%v", err)
	}
	m.recorder.Started("sarama", settings.ClientID)
	go func() {
		for err := range group.Errors() {
			m.recorder.Error(err)
		}
	}()
	for ended.Err() == nil {
		if err := group.Consume(ended, settings.Topics, m); err != nil && !errors.Is(err, sarama.ErrClosedConsumerGroup) {
			m.recorder.Error(err)
			select {
			case <-ended.Done():
			case <-time.After(time.Second):
			}
		}
	}
	m.recorder.Error(group.Close())
	m.recorder.Closed()
}

func configuration(settings lines.Settings) *sarama.Config {
	config := sarama.NewConfig()
	config.ClientID = settings.ClientID
	config.RackID = settings.Rack
	config.Consumer.Return.Errors = true
	config.Consumer.Offsets.Initial = sarama.OffsetOldest
	config.Consumer.Offsets.AutoCommit.Enable = false // Commit is called about once a second, and its effect printed
	config.Consumer.Group.InstanceId = settings.InstanceID
	if chosen := lines.Choose(settings.Assignors, strategies); len(chosen) > 0 {
		config.Consumer.Group.Rebalance.GroupStrategies = chosen
	}
	durations := map[string]*time.Duration{
		"session.timeout.ms":    &config.Consumer.Group.Session.Timeout,
		"heartbeat.interval.ms": &config.Consumer.Group.Heartbeat.Interval,
		"max.poll.interval.ms":  &config.Consumer.Group.Rebalance.Timeout,
	}
	for name, target := range durations {
		if value, given := settings.Milliseconds(name); given {
			*target = value
		}
	}
	return config
}

// mark notes what may be committed.
func (m *member) mark(partition lines.Partition, next int64) {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	if m.session != nil {
		m.session.MarkOffset(partition.Topic, partition.Number, next, "")
	}
}

// Setup prints what this generation gives; part of sarama.ConsumerGroupHandler.
func (m *member) Setup(session sarama.ConsumerGroupSession) error {
	m.mutex.Lock()
	m.session = session
	m.mutex.Unlock()
	m.recorder.Partitions("assigned", session.Claims(), session.GenerationID())
	go m.commitRegularly(session)
	return nil
}

// Cleanup commits and prints that everything goes; part of sarama.ConsumerGroupHandler.
func (m *member) Cleanup(session sarama.ConsumerGroupSession) error {
	m.recorder.Flush()
	m.commit(session)
	m.mutex.Lock()
	m.session = nil
	m.mutex.Unlock()
	m.recorder.Partitions("revoked", session.Claims(), session.GenerationID())
	return nil
}

// ConsumeClaim reads one partition until the generation ends; part of sarama.ConsumerGroupHandler.
func (m *member) ConsumeClaim(session sarama.ConsumerGroupSession, claim sarama.ConsumerGroupClaim) error {
	due := time.NewTicker(100 * time.Millisecond)
	defer due.Stop()
	partition := lines.Partition{Topic: claim.Topic(), Number: claim.Partition()}
	for {
		select {
		case message, open := <-claim.Messages():
			if !open {
				return nil
			}
			m.recorder.Read(partition, message.Offset)
		case <-due.C:
			m.recorder.FlushIfDue()
		case <-session.Context().Done():
			return nil
		}
	}
}

func (m *member) commitRegularly(session sarama.ConsumerGroupSession) {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			m.commit(session)
		case <-session.Context().Done():
			return
		}
	}
}

// commit commits what is marked, and prints what the coordinator then has: Commit itself does not say what failed.
func (m *member) commit(session sarama.ConsumerGroupSession) {
	session.Commit()
	answer, err := m.admin.ListConsumerGroupOffsets(m.group, session.Claims())
	if err != nil {
		return // nothing is said of what may have been confirmed
	}
	confirmed := map[lines.Partition]int64{}
	for topic, blocks := range answer.Blocks {
		for number, block := range blocks {
			if block.Err == sarama.ErrNoError && block.Offset >= 0 {
				confirmed[lines.Partition{Topic: topic, Number: number}] = block.Offset
			}
		}
	}
	m.recorder.Committed(confirmed)
}
