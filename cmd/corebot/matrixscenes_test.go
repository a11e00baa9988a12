package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/agent/llm"
	"github.com/corebot/corebot/agent/llm/llmtest"
	"github.com/corebot/corebot/internal/load"
	"github.com/corebot/corebot/internal/rootfs"
)

// effective is the role that a turn must have.
type effective string

const (
	normal     effective = "normal"
	here       effective = "here"       // admin in the chat of the turn, and nowhere else
	everywhere effective = "everywhere" // admin
)

// scene is one way in which a turn comes about. Each has a chat and people of its own, who are called after it.
type scene struct {
	name   string
	entry  string    // as the audit must name it
	as     effective // the role that the turn must have
	shared bool      // somebody else than the sender has text in the turn
	unsent bool      // the sender has no id
	play   func(*stage)
}

// scenes are all entry paths, each with every role that it can have.
func scenes() []scene {
	is := func(role effective) func(*stage) {
		return func(s *stage) { s.make("sender", role); s.act() }
	}
	inGroup := func(role effective) func(*stage) {
		return func(s *stage) {
			s.make("owner", everywhere)
			s.output("chats", "register", s.key())
			s.say("owner", "hush")
			s.make("sender", role)
			s.act()
		}
	}
	replayed := func(then, today effective) func(*stage) {
		return func(s *stage) {
			s.make("sender", then)
			s.say(s.sender(), "die")
			s.remake("sender", then, today)
			s.replay()
		}
	}
	changed := func(then, today effective) func(*stage) {
		return func(s *stage) {
			s.make("sender", then)
			s.held("somebody", "hold", func() {
				s.post(s.sender(), "act")
				s.remake("sender", then, today)
			})
			s.await("act")
		}
	}
	return []scene{
		{"direct-normal", "direct", normal, false, false, is(normal)},
		{"direct-unnamed", "direct", normal, false, true, func(s *stage) { s.act() }},
		{"direct-here", "direct", here, false, false, is(here)},
		{"direct-everywhere", "direct", everywhere, false, false, is(everywhere)},
		{"direct-lowered-here", "direct", normal, false, false, func(s *stage) {
			s.make("sender", everywhere)
			s.output("admin", "grant", s.person("sender"), "--role", "normal", "--chat", s.key())
			s.act()
		}},

		{"group-normal", "direct", normal, false, false, inGroup(normal)},
		{"group-unnamed", "direct", normal, false, true, inGroup(normal)},
		{"group-here", "direct", here, false, false, inGroup(here)},
		{"group-everywhere", "direct", everywhere, false, false, inGroup(everywhere)},

		{"replay-normal", "replay", normal, false, false, replayed(normal, normal)},
		{"replay-unnamed", "replay", normal, false, true, replayed(normal, normal)},
		{"replay-here", "replay", here, false, false, replayed(here, here)},
		{"replay-everywhere", "replay", everywhere, false, false, replayed(everywhere, everywhere)},
		{"replay-demoted", "replay", normal, false, false, replayed(everywhere, normal)},
		{"replay-promoted", "replay", everywhere, false, false, replayed(normal, everywhere)},

		{"steer-normal-into-admin", "steer", normal, true, false, merged(everywhere, normal)},
		{"steer-unnamed-into-admin", "steer", normal, true, false, merged(everywhere, "")},
		{"steer-here-into-everywhere", "steer", here, true, false, steered(everywhere, here)},
		{"steer-everywhere-into-here", "steer", here, true, false, steered(here, everywhere)},
		{"steer-admin-into-normal", "steer", normal, true, false, steered(normal, everywhere)},
		{"steer-admin-into-admin", "steer", everywhere, true, false, steered(everywhere, everywhere)},
		// who waits his turn then
		{"steer-refused", "direct", everywhere, false, false, saidWhileItRuns(everywhere, normal, "hush")},
		{"steer-own", "direct", here, false, false, func(s *stage) {
			s.make("sender", here)
			s.held("sender", "begin", func() { s.command("sender", "steer", "/steer "+s.line("act")) })
			s.await("begin")
		}},

		{"demoted-to-normal", "direct", normal, false, false, changed(everywhere, normal)},
		{"demoted-here-to-normal", "direct", normal, false, false, changed(here, normal)},
		{"demoted-to-here", "direct", here, false, false, changed(everywhere, here)},
		{"promoted-to-here", "direct", here, false, false, changed(normal, here)},
		{"promoted-to-everywhere", "direct", everywhere, false, false, changed(normal, everywhere)},
	}
}

// steered is a turn of the sender into which another says something by /steer while it runs.
func steered(sender, other effective) func(*stage) { return saidWhileItRuns(sender, other, "act") }

func saidWhileItRuns(sender, other effective, verb string) func(*stage) {
	return func(s *stage) {
		s.make("sender", sender)
		s.make("other", other)
		s.held("sender", "begin", func() { s.command("other", "steer", "/steer "+s.line(verb)) })
		s.await("begin")
	}
}

// merged is a turn of the sender that merges the prompt of another by the queue mode of its chat. Without a role, the
// other has no id either.
func merged(sender, other effective) func(*stage) {
	return func(s *stage) {
		s.make("sender", sender)
		who := ""
		if other != "" {
			who = "other"
			s.make(who, other)
		}
		s.say("sender", "hush") // a chat has settings from its first message on
		s.output("chats", "set", s.key(), "--queue-mode", "steer")
		s.held("sender", "begin", func() { s.post(who, "act") })
		s.await("begin")
	}
}

// stage is where a scene is played.
type stage struct {
	*service
	scene
	t       *testing.T
	client  *load.Client
	model   *actor
	cursor  string
	replies map[string]bool // the ids of messages that have been answered
}

func (s *stage) key() string { return "main:webhook::" + s.name }

// sender is the name of who sends the message of the turn.
func (s *stage) sender() string {
	if s.unsent {
		return ""
	}
	return "sender"
}

// id is the sender's id of somebody in the scene. Somebody without a name has no id.
func (s *stage) id(name string) string {
	if name == "" {
		return ""
	}
	return s.name + "-" + name
}

func (s *stage) person(name string) string { return "webhook::" + s.id(name) }

// make gives somebody a role. In a fresh scene everybody is normal.
func (s *stage) make(name string, role effective) {
	s.t.Helper()
	switch {
	case s.unsent && name == "sender":
	case role == everywhere:
		s.output("admin", "grant", s.person(name))
	case role == here:
		s.output("admin", "grant", s.person(name), "--chat", s.key())
	}
}

// remake changes a role.
func (s *stage) remake(name string, from, to effective) {
	s.t.Helper()
	if from == to {
		return
	}
	switch from {
	case everywhere:
		s.output("admin", "revoke", s.person(name))
	case here:
		s.output("admin", "revoke", s.person(name), "--chat", s.key())
	}
	s.make(name, to)
}

// line is what is said: the model plays the scene by it.
func (s *stage) line(verb string) string { return fmt.Sprintf("scene %s: %s", s.name, verb) }

// post sends a message whose id is its verb's.
func (s *stage) post(who, verb string) { s.t.Helper(); s.command(who, verb, s.line(verb)) }

func (s *stage) command(who, id, text string) {
	s.t.Helper()
	if _, err := s.client.Post(s.t.Context(), load.Message{
		ID: s.name + "/" + id, ChatID: s.name, Sender: s.id(who),
		Content: text,
	}); err != nil {
		s.t.Fatal(err)
	}
}

// await waits until a message has been told how it ended.
func (s *stage) await(verb string) {
	s.t.Helper()
	for deadline := time.Now().Add(patience); !s.replies[s.name+"/"+verb]; {
		replies, cursor, err := s.client.Replies(s.t.Context(), s.name, s.cursor, time.Second)
		if err != nil || time.Now().After(deadline) {
			s.t.Fatalf("%s is not answered: %v", verb, err)
		}
		s.cursor = cursor
		for _, r := range replies {
			s.replies[r.InReplyTo] = true
		}
	}
}

func (s *stage) say(who, verb string) { s.t.Helper(); s.post(who, verb); s.await(verb) }
func (s *stage) act()                 { s.t.Helper(); s.say(s.sender(), "act") }

// held sends a message and does something while the model thinks about it.
func (s *stage) held(who, verb string, meanwhile func()) {
	s.t.Helper()
	s.post(who, verb)
	reached, goOn := s.model.hold(s.name)
	reached.pass()
	meanwhile()
	goOn.let()
}

// replay has an admin of another chat bring back what died in this one.
func (s *stage) replay() {
	s.t.Helper()
	var letter struct{ ID int64 }
	out := s.output("dlq", "list", "--json", "--chat", s.name)
	if err := json.Unmarshal([]byte(out), &letter); err != nil {
		s.t.Fatalf("%v in %s", err, out)
	}
	s.output("admin", "grant", s.person("keeper"))
	m := load.Message{
		ID: s.name + "/replay", ChatID: s.name + "-keepers", Sender: s.id("keeper"),
		Content: s.line(fmt.Sprint("replay ", letter.ID)),
	}
	if _, err := s.client.Post(s.t.Context(), m); err != nil {
		s.t.Fatal(err)
	}
	delete(s.replies, s.name+"/die") // that it died was an answer, too
	s.await("die")
}

// actor is the model of all scenes. It does what the newest line of a scene says, however wrong that is.
type actor struct {
	mu      sync.Mutex
	gates   map[string][2]*gate // reached and go on, by scene
	died    map[string]bool
	offered map[string][]string // in the request that was answered by the calls of the matrix
}

func newActor() *actor {
	return &actor{gates: map[string][2]*gate{}, died: map[string]bool{}, offered: map[string][]string{}}
}

func (a *actor) hold(scene string) (reached, goOn *gate) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.gates[scene] == [2]*gate{} {
		a.gates[scene] = [2]*gate{newGate(), newGate()}
	}
	return a.gates[scene][0], a.gates[scene][1]
}

// diesNow is true once for each scene.
func (a *actor) diesNow(scene string) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	died := a.died[scene]
	a.died[scene] = true
	return !died
}

// perform answers a request.
func (a *actor) perform(r llmtest.Request) llmtest.Answer {
	scene, verb, results := newestLine(r)
	switch word, id, _ := strings.Cut(verb, " "); {
	case word == "replay" && results == 0:
		return llmtest.ToolCalls(llmtest.Call{ID: "r", Name: "bus_dead_letter_replay", Args: `{"id":` + id + `}`})
	case word == "die" && a.diesNow(scene):
		return llmtest.Fail(http.StatusBadRequest, "this cannot be answered")
	case word == "hold":
		a.wait(scene)
	case word == "begin" && results == 0:
		a.wait(scene)
		return llmtest.ToolCalls(llmtest.Call{ID: "b", Name: "memory_read", Args: `{"scope":"chat"}`})
	case word == "begin":
		return a.everything(scene, r, results-1)
	case word == "act", word == "die":
		return a.everything(scene, r, results)
	}
	return llmtest.Text("done")
}

func (a *actor) wait(scene string) {
	reached, goOn := a.hold(scene)
	reached.let()
	goOn.pass()
}

// mostCalls is how many calls of one answer are made.
const mostCalls = 64

// everything asks for the calls of the matrix from a place on, as many as one answer can have.
func (a *actor) everything(scene string, r llmtest.Request, from int) llmtest.Answer {
	a.mu.Lock()
	a.offered[scene] = r.ToolNames()
	a.mu.Unlock()
	all := matrix()
	if from >= len(all) {
		return llmtest.Text("done")
	}
	var calls []llmtest.Call
	for i, c := range all[from:min(from+mostCalls, len(all))] {
		calls = append(calls, llmtest.Call{
			ID: fmt.Sprint("c", i), Name: llm.EncodeName(c.tool),
			Args: fill(c.args, scene),
		})
	}
	return llmtest.ToolCalls(calls...)
}

// fill puts a scene's names into arguments.
func fill(args, scene string) string {
	dir := func(chat string) string {
		return rootfs.ChatDir(corebot.Key{Agent: corebot.DefaultAgent, Channel: "webhook", Chat: chat})
	}
	self := scene + "-sender"
	if strings.HasSuffix(scene, "-unnamed") {
		self = ""
	}
	return strings.NewReplacer("{chat}", scene, "{dir}", dir(scene), "{otherdir}", dir("elsewhere"), "{self}",
		self).Replace(args)
}

// newestLine finds what was said last in a scene, and how many results of tools came after it.
func newestLine(r llmtest.Request) (scene, verb string, results int) {
	line := regexp.MustCompile(`scene (\S+): (.+)$`)
	for _, m := range r.Messages {
		if found := line.FindStringSubmatch(string(m.Content)); m.Role == "user" && found != nil {
			scene, verb, results = found[1], found[2], 0
		} else if m.Role == "tool" {
			results++
		}
	}
	return scene, verb, results
}
