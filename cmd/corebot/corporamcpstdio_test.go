package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/corebot/corebot/internal/long"
)

// hostsAtOnce is how many hosts have a program of their own at the daemon.
const hostsAtOnce = 4

// fromHosts sends every item to `corebot mcp serve`, whose client is an admin: as lines, and in every place of a
// message. Every request has one answer, and what is written besides is messages too.
func (f *fort) fromHosts() {
	hosts := make(chan *program, hostsAtOnce)
	for n := range hostsAtOnce {
		hosts <- f.startProgram(n)
	}
	d := &desk{fort: f}
	d.ask = func(m message) string {
		p := <-hosts
		defer func() { hosts <- p }()
		return p.converse(d, m)[0]
	}
	d.open()
	d.promote()
	before := d.audited()
	d.called = 0
	var waiting sync.WaitGroup
	var patient *program
	if long.Or(false, true) { // a call hears of its progress after five seconds
		patient = f.startProgram(hostsAtOnce)
		patient.converse(d, d.hello())
		waiting.Go(func() { patient.wait(d) })
	}
	f.each(func(item string, i int) {
		p := <-hosts
		defer func() { hosts <- p }()
		_, _ = io.WriteString(p.in, item+"\n")
		p.converse(d, d.messages(item, i)...)
		if i%1000 == 0 {
			p.tooLong(d)
		}
	})()
	waiting.Wait()
	d.requireAudit(before)
	d.requireGood("good over stdio")
	d.readAll()
	if patient != nil {
		patient.end(f)
	}
	for range hostsAtOnce {
		(<-hosts).end(f)
	}
	f.output("admin", "revoke", clientsName)
}

// program is a `corebot mcp serve` that a host has started.
type program struct {
	cmd *exec.Cmd
	in  io.WriteCloser
	out chan string // the lines of its output
	log string

	told map[string]bool // progress tokens, in JSON, that its client heard of
}

func (f *fort) startProgram(n int) *program {
	f.t.Helper()
	p := &program{
		cmd: f.command(f.t.Context(), "mcp", "serve"), out: make(chan string, 1_000), told: map[string]bool{},
		log: filepath.Join(f.t.TempDir(), fmt.Sprint("host", n)),
	}
	log, err := os.Create(p.log)
	if err != nil {
		f.t.Fatal(err)
	}
	defer log.Close() //nolint:errcheck // the program has its own
	p.cmd.Stderr = log
	in, err := p.cmd.StdinPipe()
	if err != nil {
		f.t.Fatal(err)
	}
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		f.t.Fatal(err)
	}
	if err := p.cmd.Start(); err != nil {
		f.t.Fatal(err)
	}
	p.in = in
	go func() {
		defer close(p.out)
		for r := bufio.NewReader(out); ; {
			line, err := r.ReadString('\n')
			if line != "" {
				p.out <- line
			}
			if err != nil {
				return
			}
		}
	}()
	return p
}

// converse says messages, and hears until those with an id of ours are answered, once each. It gives these answers in
// the order of the messages.
func (p *program) converse(d *desk, messages ...message) []string {
	answers, open := make([]string, len(messages)), map[string]int{}
	for i, m := range messages {
		if m.id != "" {
			open[m.id] = i
		}
		_, _ = io.WriteString(p.in, m.text+"\n") // the end of the program is seen where it is heard
	}
	for late := time.After(3 * patience); len(open) > 0; {
		select {
		case line, ok := <-p.out:
			if !ok {
				d.t.Errorf("the program has ended at %.100q", messages[0].item)
				return answers
			}
			var s spoken
			if _ = json.Unmarshal([]byte(line), &s); s.Method != "" {
				p.told[string(s.Params.ProgressToken)] = true
			}
			i, known := open[string(s.ID)]
			if !known {
				d.hear(line, message{item: messages[0].item})
				continue
			}
			d.hear(line, messages[i])
			answers[i] = line
			delete(open, string(s.ID))
		case <-late:
			d.t.Errorf("%d messages of %.100q are not answered: %.300q", len(open), messages[0].item,
				messages[slices.Collect(maps.Values(open))[0]].text)
			return answers
		}
	}
	return answers
}

// tooLong says a good message that is too long, and hears that it is.
func (p *program) tooLong(d *desk) {
	long := d.request(`"method":"ping"`)
	_, _ = io.WriteString(p.in, long.text+strings.Repeat(" ", 4<<20)+"\n")
	for late := time.After(patience); ; {
		select {
		case line := <-p.out:
			if d.hear(line, message{item: "a long line"}); strings.Contains(line, "a message has more than") {
				return
			}
			if strings.Contains(line, long.id) {
				d.t.Error("a line over the cap is answered")
				return
			}
		case <-late:
			d.t.Error("a line over the cap is not refused")
			return
		}
	}
}

// wait has calls wait for what does not come, each with an item for its progress token, and hears the items in what is
// told of them.
func (p *program) wait(d *desk) {
	const calls = 30 // at once
	var messages []message
	for n := range calls {
		item := d.items[n*len(d.items)/calls]
		m := d.request(
			`"method":"tools/call","params":{"name":"message_replies","arguments":{"chatId":"nothing",` +
				`"waitSeconds":6},"_meta":{"progressToken":` + quoted(item) + `}}`)
		m.item, m.tool = item, "message_replies"
		messages = append(messages, m)
	}
	p.converse(d, messages...)
	for _, m := range messages {
		var token string
		if err := json.Unmarshal([]byte(quoted(m.item)), &token); err != nil || !p.told[mustJSON(token)] {
			d.t.Errorf("a call with the progress token %.100q heard of no progress, %v", m.item, err)
		}
	}
}

// end closes the program's input, at which it ends in order.
func (p *program) end(f *fort) {
	f.t.Helper()
	_ = p.in.Close()
	for range p.out {
	}
	if err := p.cmd.Wait(); err != nil {
		f.t.Errorf("mcp serve ended with %v", err)
	}
	f.requireOrdinaryLog(p.log)
}
