// Package lines holds what the Go members of consumer groups share: their command line, and events as JSON lines.
// What the lines mean is in lab/sandbox/members/__init__.py.
package lines

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"
)

// Settings are one member's arguments, the same that the Python members take.
type Settings struct {
	Bootstrap  []string
	Group      string
	Topics     []string
	ClientID   string
	Rack       string   // empty: none
	Assignors  []string // empty: the client's default
	InstanceID string   // empty: a dynamic member
	properties map[string]string
}

// Parse reads the command line; it ends the program with exit code 2 where that makes no sense.
func Parse() Settings {
	settings := Settings{properties: map[string]string{}}
	line := os.Args[1:]
	for i := 0; i+1 < len(line); i += 2 {
		value := line[i+1]
		switch line[i] {
		case "--bootstrap":
			settings.Bootstrap = strings.Split(value, ",")
		case "--group":
			settings.Group = value
		case "--topics":
			settings.Topics = strings.Split(value, ",")
		case "--client-id":
			settings.ClientID = value
		case "--rack":
			settings.Rack = value
		case "--assignor":
			settings.Assignors = strings.Split(value, ",")
		case "--instance-id":
			settings.InstanceID = value
		case "--property":
			key, set, _ := strings.Cut(value, "=")
			settings.properties[key] = set
		default:
			Fail("unknown option %s", line[i])
		}
	}
	if len(settings.Bootstrap) == 0 || settings.Group == "" || len(settings.Topics) == 0 {
		Fail("--bootstrap, --group and --topics are needed")
	}
	return settings
}

// Fail ends the program with exit code 2 and a message on standard error.
func Fail(format string, arguments ...any) {
	fmt.Fprintf(os.Stderr, format+"\n", arguments...)
	os.Exit(2)
}

// Milliseconds returns a property in Kafka's name that is a duration, and whether it is given. Properties that a client
// has no counterpart for are not asked for, and so ignored.
func (s Settings) Milliseconds(name string) (time.Duration, bool) {
	text, given := s.properties[name]
	if !given {
		return 0, false
	}
	number, err := strconv.Atoi(text)
	if err != nil {
		Fail("%s: %q is not a number of milliseconds", name, text)
	}
	return time.Duration(number) * time.Millisecond, true
}

// NewProtocol says whether the brokers are to assign the group (KIP-848).
func (s Settings) NewProtocol() bool {
	return s.properties["group.protocol"] == "consumer"
}

// Choose returns what the names of assignors stand for; it ends the program at a name that is not in the table.
func Choose[T any](names []string, table map[string]T) []T {
	var chosen []T
	for _, name := range names {
		found, known := table[name]
		if !known {
			Fail("this client has no assignor %q", name)
		}
		chosen = append(chosen, found)
	}
	return chosen
}
