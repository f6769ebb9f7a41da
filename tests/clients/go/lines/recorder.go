package lines

import (
	"encoding/json"
	"os"
	"sort"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

const gather = 100 * time.Millisecond

// Partition is a topic's partition.
type Partition struct {
	Topic  string
	Number int32
}

type run struct{ first, last, begun, ended int64 }

// Recorder prints a member's events; it may be used by several goroutines. Reads of consecutive offsets are gathered
// for up to a tenth of a second, and printed before any other event.
type Recorder struct {
	printed    func(Partition, int64)
	mutex      sync.Mutex
	runs       map[Partition]*run
	flushed    time.Time
	generation int32
}

// NewRecorder makes a recorder. After it has printed reads it calls `printed` with their partition and the offset behind
// the last one: only what is printed may be committed, else a member that is killed in between would seem to have
// skipped it. The function must not call the recorder.
func NewRecorder(printed func(Partition, int64)) *Recorder {
	return &Recorder{printed: printed, runs: map[Partition]*run{}, flushed: time.Now(), generation: -1}
}

// Started prints which client this is.
func (r *Recorder) Started(client, clientID string) {
	r.event("started", map[string]any{"client": client, "client_id": clientID})
}

// Error prints an error.
func (r *Recorder) Error(err error) {
	if err != nil {
		r.event("error", map[string]any{"message": err.Error()})
	}
}

// Closed prints that the member has ended.
func (r *Recorder) Closed() { r.event("closed", nil) }

// Partitions prints what was assigned, revoked or lost, in a generation if the client says which (-1: it does not).
func (r *Recorder) Partitions(kind string, topics map[string][]int32, generation int32) {
	pairs := [][2]any{}
	for topic, numbers := range topics {
		for _, number := range numbers {
			pairs = append(pairs, [2]any{topic, number})
		}
	}
	sort.Slice(pairs, func(i, j int) bool {
		one, other := pairs[i], pairs[j]
		if one[0] != other[0] {
			return one[0].(string) < other[0].(string)
		}
		return one[1].(int32) < other[1].(int32)
	})
	fields := map[string]any{"partitions": pairs}
	if generation >= 0 {
		fields["generation"] = generation
	}
	r.mutex.Lock()
	defer r.mutex.Unlock()
	r.generation = max(r.generation, generation)
	r.flush()
	r.print(kind, fields)
}

// Generation prints the generation that the client says it is in, where it is another than the last one printed.
func (r *Recorder) Generation(now int32) {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	if now > r.generation {
		r.generation = now
		r.flush()
		r.print("joined", map[string]any{"generation": now})
	}
}

// Committed prints offsets that a coordinator has confirmed: of each partition the next to be read.
func (r *Recorder) Committed(offsets map[Partition]int64) {
	if len(offsets) == 0 {
		return
	}
	triples := [][3]any{}
	for partition, offset := range offsets {
		triples = append(triples, [3]any{partition.Topic, partition.Number, offset})
	}
	r.event("committed", map[string]any{"offsets": triples})
}

// Read takes note of one record.
func (r *Recorder) Read(partition Partition, offset int64) {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	now := monotonic()
	known := r.runs[partition]
	if known != nil && known.last+1 == offset && now-known.ended < int64(gather) {
		known.last, known.ended = offset, now
		return
	}
	if known != nil {
		r.flush()
	}
	r.runs[partition] = &run{first: offset, last: offset, begun: now, ended: now}
}

// Flush prints the gathered reads.
func (r *Recorder) Flush() {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	r.flush()
}

// FlushIfDue prints the gathered reads when they have waited long enough.
func (r *Recorder) FlushIfDue() {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	if time.Since(r.flushed) >= gather {
		r.flush()
	}
}

func (r *Recorder) flush() {
	r.flushed = time.Now()
	for partition, known := range r.runs {
		delete(r.runs, partition)
		r.print("records", map[string]any{
			"topic": partition.Topic, "partition": partition.Number, "first": known.first, "last": known.last,
			"count": known.last - known.first + 1, "begun_ns": known.begun, "ended_ns": known.ended,
		})
		r.printed(partition, known.last+1)
	}
}

func (r *Recorder) event(kind string, fields map[string]any) {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	r.flush()
	r.print(kind, fields)
}

func (r *Recorder) print(kind string, fields map[string]any) {
	line := map[string]any{"event": kind, "ms": time.Now().UnixMilli(), "ns": monotonic()}
	for key, value := range fields {
		line[key] = value
	}
	text, err := json.Marshal(line)
	if err != nil {
		Fail("cannot print %v: %v", line, err)
	}
	// In one write, so that a member that is killed leaves at most one line that is cut off.
	if _, err := os.Stdout.Write(append(text, '\n')); err != nil {
		os.Exit(1) // nobody listens any more
	}
}

// monotonic is the clock that all processes of a machine share and that never jumps, in nanoseconds.
func monotonic() int64 {
	var now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &now); err != nil {
		Fail("the monotonic clock: %v", err)
	}
	return now.Nano()
}
