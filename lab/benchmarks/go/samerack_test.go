// Runs franz-go's cooperative-sticky balancer on groups that samerack's benchmark describes, from the metadata in JoinGroup
// to the assignments in SyncGroup. It is put into a copy of the module, because racks reach the balancer inside of it only.
package kgo

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

type samerackQuestion struct {
	Brokers []struct {
		ID   int    `json:"id"`
		Rack string `json:"rack"`
	} `json:"brokers"`
	Topics  map[string][][]int `json:"topics"`
	Members []struct {
		ID       string `json:"id"`
		Metadata []byte `json:"metadata"`
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
		var q samerackQuestion
		if err := json.Unmarshal(lines.Bytes(), &q); err != nil {
			t.Fatal(err)
		}
		answer, err := json.Marshal(samerackRun(t, &q))
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintln(out, string(answer))
	}
}

func samerackRun(t *testing.T, q *samerackQuestion) map[string]any {
	rackOf := make(map[int]string)
	for _, broker := range q.Brokers {
		rackOf[broker.ID] = broker.Rack
	}
	counts, racks := make(map[string]int32), make(map[string][]string)
	for topic, partitions := range q.Topics {
		counts[topic] = int32(len(partitions))
		for _, replicas := range partitions {
			racks[topic] = append(racks[topic], rackOf[replicas[0]])
		}
	}
	var nanos []int64
	var sent []kmsg.SyncGroupRequestGroupAssignment
	for range q.Repeat {
		members := make([]kmsg.JoinGroupResponseMember, 0, len(q.Members))
		for _, member := range q.Members {
			members = append(members, kmsg.JoinGroupResponseMember{MemberID: member.ID, ProtocolMetadata: member.Metadata})
		}
		start := time.Now()
		sortJoinMembers(members)
		balancer, _, err := CooperativeStickyBalancer().MemberBalancer(members)
		if err != nil {
			t.Fatal(err)
		}
		group := balancer.(*ConsumerBalancer)
		group.partitionRacks, group.balanceRacks = racks, true
		plan, err := group.BalanceOrError(counts)
		if err != nil {
			t.Fatal(err)
		}
		sent = plan.IntoSyncAssignment()
		nanos = append(nanos, time.Since(start).Nanoseconds())
	}
	assignment := make(map[string][]byte)
	for _, one := range sent {
		assignment[one.MemberID] = one.MemberAssignment
	}
	later := nanos[len(nanos)/2:]
	sort.Slice(later, func(i, j int) bool { return later[i] < later[j] })
	return map[string]any{"assignment": assignment, "nanos": later[len(later)/2]}
}
