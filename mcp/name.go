package mcp

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/rs/zerolog"
	"golang.org/x/text/unicode/norm"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/agent/llm"
)

// maxServerName leaves the tools of a server some room in their names, in bytes.
const maxServerName = 32

// toolName is what Corebot calls a tool. It is mcp__SERVER__TOOL where every provider takes that name, else its
// readable beginning and a hash of the server's own name. Two names of one server are the same only by a collision of
// eight hexadecimal digits; the maker of a set of tools then refuses the second. Names of different servers never
// collide: see [entryReader.servers].
func toolName(server, tool string) string {
	prefix := toolPrefix(server)
	if name := prefix + tool; llm.EncodeName(name) == name && tool != "" {
		return name
	}
	const digits = 8
	sum := sha256.Sum256([]byte(tool))
	plain := strings.Map(func(r rune) rune {
		if r < 0x80 && llm.EncodeName(string(r)) == string(r) {
			return r
		}
		return '_'
	}, tool)
	room := llm.MaxProviderName - len(prefix) - 1 - digits
	return prefix + plain[:min(len(plain), room)] + "_" + hex.EncodeToString(sum[:digits/2])
}

// toolPrefix begins the names of a server's tools.
func toolPrefix(server string) string { return "mcp__" + server + "__" }

// clip keeps the beginning of a text that somebody else made, at most n bytes and a sign that something is missing.
func clip(s string, n int) string {
	if len(s) <= n {
		return s
	}
	return strings.ToValidUTF8(s[:n], "") + "…"
}

// Letters of other scripts, and digits, with the Latin letters that they are taken for, one by one.
const (
	lookalikes = "\u0430\u0432\u0441\u0501\u0435\u0261\u04bb\u0456\u0458" +
		"\u043a\u04cf\u043c\u043d\u043e\u0440\u051b\u0455\u0442\u0475\u051d\u0445\u0443" +
		"\u03b1\u03b2\u03b5\u03b7\u03b9\u03ba\u03bd\u03bf\u03c1\u03c4\u03c5\u03c7\u03b3" + "01"
	latin = "abcdeghijklmhopqstvwxy" + "abenikvoptuxy" + "ol"
)

// alike is one text for all names that a model or a person could take for one another. Case, width, marks and
// separators do not count, and neither do letters of another script that look the same.
func alike(name string) string {
	twins := []rune(lookalikes)
	shape := strings.Map(func(r rune) rune {
		r = unicode.ToLower(unicode.ToUpper(r)) // K, k and the Kelvin sign
		switch i := slices.Index(twins, r); {
		case i >= 0:
			return rune(latin[i])
		case unicode.IsMark(r), unicode.Is(unicode.Cf, r):
			return -1
		case unicode.IsLetter(r), unicode.IsDigit(r):
			return r
		}
		return '_'
	}, norm.NFKD.String(name))
	return strings.NewReplacer("l", "i", "rn", "m", "vv", "w").Replace(shape) // I, l and 1 look the same
}

// doubled names what a listing has more than once. Whichever of them a model were shown, the fingerprint could be that
// of another.
func doubled(defs []definition) map[string]string {
	times := map[string]int{}
	for _, d := range defs {
		if d.Name != "" {
			times[d.Name]++
		}
	}
	refused := map[string]string{}
	for name, n := range times {
		if n > 1 {
			refused[name] = fmt.Sprintf("the server lists %d tools of that name", n)
		}
	}
	return refused
}

// confusable names the tools that a model could not tell apart, by what it is shown or by how their names look.
func confusable(server string, defs []definition) map[string]string {
	groups := map[string][]string{}
	for _, d := range defs {
		for _, shape := range []string{alike(d.Name), toolName(server, d.Name)} {
			if d.err == nil && !slices.Contains(groups[shape], d.Name) {
				groups[shape] = append(groups[shape], d.Name)
			}
		}
	}
	refused := map[string]string{}
	for _, names := range groups {
		for i, name := range names {
			if len(names) > 1 {
				other := names[(i+1)%len(names)]
				refused[name] = fmt.Sprintf("its name looks like that of the tool %q: list one of them in denyTools",
					clip(other, 60))
			}
		}
	}
	return refused
}

// noteTime is how long the audit may take for an event.
const noteTime = 10 * time.Second

// note leaves an event of the server in the audit.
func (s *server) note(event string, outcome corebot.AuditOutcome, about map[string]any) {
	all := map[string]any{"server": s.spec.Name}
	maps.Copy(all, about)
	note(s.opts.Trail, s.opts.Log, event, outcome, all)
}

// note leaves an event in the audit. If that fails, the work goes on.
func note(trail Trail, log zerolog.Logger, event string, outcome corebot.AuditOutcome, about map[string]any) {
	if trail == nil {
		return
	}
	args, err := json.Marshal(about)
	if err == nil {
		ctx, stop := context.WithTimeout(context.Background(), noteTime)
		defer stop()
		err = trail.Note(ctx, corebot.AuditEvent{
			At: time.Now(), Event: event, Entry: corebot.EntryServers, Outcome: outcome, Args: string(args),
		})
	}
	if err != nil {
		log.Warn().Err(err).Str("event", event).Msg("an event of an MCP server was not noted in the audit")
	}
}
