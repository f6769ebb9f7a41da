// Runs franz-go's sticky balancer on groups that samerack's benchmark describes. It is put into a copy of the module,
// because the balancer is internal to it.
package sticky

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"sort"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

type question struct {
	Brokers []struct {
		ID   int    `json:"id"`
		Rack string `json:"rack"`
	} `json:"brokers"`
	Topics        map[string][][]int `json:"topics"`
	Subscriptions [][]string         `json:"subscriptions"`
	Members       []struct {
		ID           string  `json:"id"`
		Subscription int     `json:"subscription"`
		Rack         string  `json:"rack"`
		Generation   int32   `json:"generation"`
		Owned        [][]any `json:"owned"`
	} `json:"members"`
	Repeat int `json:"repeat"`
}

// TestSamerack answers the lines of the file that QUESTIONS names with lines in the file that ANSWERS names.
func TestSamerack(t *testing.T) {
	in, err := os.Open(os.Getenv("QUESTIONS"))
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	out, err := os.Create(os.Getenv("ANSWERS"))
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	lines := bufio.NewScanner(in)
	lines.Buffer(nil, 1<<30)
	for lines.Scan() {
		var q question
		if err := json.Unmarshal(lines.Bytes(), &q); err != nil {
			t.Fatal(err)
		}
		answer, err := json.Marshal(run(&q))
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintln(out, string(answer))
	}
}

func run(q *question) map[string]any {
	rackOf := make(map[int]string)
	for _, broker := range q.Brokers {
		rackOf[broker.ID] = broker.Rack
	}
	topics, racks := make(map[string]int32), make(map[string][]string)
	for topic, partitions := range q.Topics {
		topics[topic] = int32(len(partitions))
		for _, replicas := range partitions {
			racks[topic] = append(racks[topic], rackOf[replicas[0]])
		}
	}
	members := make([]GroupMember, 0, len(q.Members))
	for _, member := range q.Members {
		owned := make(map[string][]int32)
		for _, pair := range member.Owned {
			topic := pair[0].(string)
			owned[topic] = append(owned[topic], int32(pair[1].(float64)))
		}
		m := GroupMember{
			ID: member.ID, Topics: q.Subscriptions[member.Subscription], Rack: member.Rack,
			Cooperative: true, Generation: member.Generation,
		}
		for topic, partitions := range owned {
			m.Owned = append(m.Owned, kmsg.ConsumerMemberMetadataOwnedPartition{Topic: topic, Partitions: partitions})
		}
		members = append(members, m)
	}
	var nanos []int64
	var plan Plan
	for range q.Repeat {
		start := time.Now()
		plan = BalanceWithRacks(members, topics, racks)
		nanos = append(nanos, time.Since(start).Nanoseconds())
	}
	later := nanos[len(nanos)/2:]
	sort.Slice(later, func(i, j int) bool { return later[i] < later[j] })
	return map[string]any{"assignment": plan, "nanos": later[len(later)/2]}
}
