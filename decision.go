package corebot

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
)

// Lasting says for how long an approval answers the same question. The values are stored; they never change.
type Lasting string

const (
	Once       Lasting = ""        // for this request alone
	ForSession Lasting = "session" // until the chat's session ends
	ForAlways  Lasting = "always"  // until somebody revokes the rule
)

// Decision is how a person answers a request for an approval.
type Decision struct {
	Approve bool    `json:"approve"`
	For     Lasting `json:"for,omitempty"`  // of an approval
	Stop    bool    `json:"stop,omitempty"` // of a denial: the answer ends, too
}

// State is the state of a request after the decision.
func (d Decision) State() ApprovalState {
	if d.Approve {
		return ApprovalApproved
	}
	return ApprovalDenied
}

// Validate refuses a decision that contradicts itself.
func (d Decision) Validate() error {
	switch {
	case d.Approve && d.Stop, !d.Approve && d.For != Once, d.For != Once && d.For != ForSession && d.For != ForAlways:
		return fmt.Errorf("%w: a request cannot be decided by %+v", ErrInvalid, d)
	}
	return nil
}

// ParseDecision reads an /approve or a /deny. ok is false for words that are none.
func ParseDecision(c Command) (id int64, d Decision, ok bool) {
	d.Approve = c.Name == "/approve"
	words := strings.Fields(strings.ToLower(c.Args))
	if len(words) == 0 || len(words) > 2 {
		return 0, d, false
	}
	id, err := ParseApprovalID(words[0])
	if err != nil || len(words) == 1 {
		return id, d, err == nil
	}
	switch word := words[1]; {
	case d.Approve && word == "once":
	case d.Approve && (word == string(ForSession) || word == string(ForAlways)):
		d.For = Lasting(word)
	case !d.Approve && word == "stop":
		d.Stop = true
	default:
		return 0, d, false
	}
	return id, d, true
}

// BindingKind says what a [Binding] lets run. The values are stored; they never change.
type BindingKind string

const (
	BindTool    BindingKind = "tool"    // every call of a tool of an MCP server
	BindCall    BindingKind = "call"    // calls with exactly the same arguments
	BindPath    BindingKind = "path"    // calls on one file, or on the files below a directory
	BindProgram BindingKind = "program" // a program with its arguments
	BindDomain  BindingKind = "domain"  // calls that go to one origin of the web
)

// Binding is what an approval for a session, or for always, lets run from then on. It answers the question whether a
// call needs an approval, and nothing else: the role is asked for every call as before.
type Binding struct {
	Kind       BindingKind `json:"kind"`
	Tool       string      `json:"tool"`
	Definition string      `json:"definition,omitempty"` // the fingerprint of the MCP server's description
	Args       string      `json:"args,omitempty"`       // of BindCall: JSON without white space
	Path       string      `json:"path,omitempty"`       // of BindPath; with a slash at the end: all that is below
	Program    Profile     `json:"program,omitzero"`     // of BindProgram
	Origin     string      `json:"origin,omitempty"`     // of BindDomain, such as https://docs.example
	Tainted    bool        `json:"tainted,omitempty"`    // it counts also in turns that have read untrusted text
}

// Profile is a program with its arguments, or with the beginning of its arguments.
type Profile struct {
	Argv []string `json:"argv"`
	More bool     `json:"more,omitempty"` // any arguments can follow
	// Contained: only calls that stay in the files of their chat.
	Contained bool `json:"contained,omitempty"`
}

// Covers says whether a program with its arguments is one of the profile.
func (p Profile) Covers(argv []string) bool {
	if len(p.Argv) == 0 || len(argv) < len(p.Argv) || !p.More && len(argv) != len(p.Argv) {
		return false
	}
	return slices.Equal(p.Argv, argv[:len(p.Argv)])
}

// String writes a profile as people read it. Words with spaces, and empty words, stand in quotes.
func (p Profile) String() string {
	words := make([]string, len(p.Argv))
	for i, w := range p.Argv {
		if words[i] = Plainly(w); w == "" || strings.ContainsFunc(w, unicode.IsSpace) || strings.ContainsAny(w, `"'`) {
			words[i] = strconv.Quote(words[i])
		}
	}
	if p.More {
		words = append(words, "…")
	}
	return strings.Join(words, " ")
}

// String says what the binding lets run, in words that stand before the answer is given.
func (b Binding) String() string {
	tool, also := Plainly(b.Tool), ", but not in turns that have read text from outside"
	if b.Tainted {
		also = ", also in turns that have read text from outside"
	}
	switch b.Kind {
	case BindTool:
		return tool + " with any arguments" + also
	case BindCall:
		return fmt.Sprintf("%s with exactly the arguments %s%s", tool, Plainly(b.Args), also)
	case BindPath:
		if below, is := strings.CutSuffix(b.Path, "/"); is {
			return fmt.Sprintf("%s of any file below %s, with any content%s", tool, Plainly(below), also)
		}
		return fmt.Sprintf("%s of the file %s, with any content%s", tool, Plainly(b.Path), also)
	case BindProgram:
		what := "exactly this program with these arguments"
		if b.Program.More {
			what = "this program with any arguments behind"
		}
		if b.Program.Contained {
			what += ", while it has no network and changes no directory of the owner"
		}
		return fmt.Sprintf("%s of %s: %s, whatever is in its directory%s", tool, b.Program, what, also)
	case BindDomain:
		if b.Tainted {
			also += fmt.Sprintf(" (whoever runs %s can then be told what this chat has read)", Plainly(b.Origin))
		}
		return fmt.Sprintf("%s of addresses at %s%s", tool, Plainly(b.Origin), also)
	}
	return tool
}

// ApprovalRule is a stored binding: it lets calls run that would wait for an approval. It counts for one principal in
// one conversation, until the session ends or somebody revokes it, and while its maker may approve such calls.
type ApprovalRule struct {
	ID        int64
	Key       Key
	Principal Principal // whose calls
	Session   int64     // of the chat; 0: in every session
	Beyond    bool      // also of calls that reach beyond the chat
	Binding   Binding
	Request   int64 // the request that was answered so
	CreatedAt time.Time
	By        string // who answered: a principal's spelling, or "operator"
}

// AuditName is how the audit trail names the rule of a call that the binding let run.
func (r ApprovalRule) AuditName() string { return fmt.Sprintf("%s %d", RuleBound, r.ID) }

// Lasts says until when the rule counts.
func (r ApprovalRule) Lasts() string {
	if r.Session != 0 {
		return "until its session ends"
	}
	return "always"
}

// RuleBound is the rule by which a call ran that a stored binding answers for. It is stored in the audit; it never
// changes.
const RuleBound = "approval-rule"

// MaxApprovalRules is how many rules a principal can have in a conversation.
const MaxApprovalRules = 100

// ErrCannotBind means that a request cannot be approved for longer than once. The request stays open.
var ErrCannotBind = errors.New("this can be approved only once")

var (
	// answerWords are what people say instead of a command, in some languages.
	answerWords = strings.Fields(`yes y yep yeah yup ok okay k sure fine approve approved allow allowed accept accepted
		confirm confirmed granted always session once no n nope never deny denied reject rejected refuse cancel stop
		don't dont ja jo nein nee oui non sí si sì sim não da nie tak да нет はい いいえ 是 不 好 네 아니요 👍 👎 ✅ ❌ ✔ ✗`)
	// refusingWords are those of them that refuse.
	refusingWords = strings.Fields(`n no nope never deny denied reject rejected refuse cancel stop don't dont nein nee
		non não nie нет いいえ 不 아니요 👎 ❌ ✗`)
	// answerFillers stand beside them.
	answerFillers = strings.Fields(`please it this that one go ahead do not run thanks thank you for the just i and
		call calls all chat bitte danke`)
)

// maxAnswerWords is how long a text can be that only answers a request.
const maxAnswerWords = 5

// LooksLikeAnswer says whether a text is probably meant as an answer to a request for an approval, such as "yes" or
// "ok, go ahead". It is no command, so it answers nothing.
func LooksLikeAnswer(text string) bool {
	words := wordsOf(text)
	if len(words) == 0 || len(words) > maxAnswerWords {
		return false
	}
	text = strings.Join(words, " ")
	answers := text == "go ahead" || text == "do it" || text == "run it" || text == "go on"
	for _, word := range words {
		word = strings.ReplaceAll(word, "’", "'")
		_, numbered := ParseApprovalID(word)
		switch {
		case slices.Contains(answerWords, word):
			answers = true
		case numbered != nil && !slices.Contains(answerFillers, word):
			return false
		}
	}
	return answers
}

// LooksLikeConsent is [LooksLikeAnswer], for texts that refuse nothing.
func LooksLikeConsent(text string) bool {
	return LooksLikeAnswer(text) && !slices.ContainsFunc(wordsOf(text), func(word string) bool {
		return slices.Contains(refusingWords, strings.ReplaceAll(word, "’", "'"))
	})
}

func wordsOf(text string) []string {
	return strings.FieldsFunc(strings.ToLower(text), func(r rune) bool {
		return r != '\'' && r != '’' &&
			(unicode.IsSpace(r) || unicode.IsPunct(r) || unicode.In(r, unicode.Variation_Selector, unicode.Sk))
	})
}

// Detached is what the message of a detached request carries beside its text. A request is detached when its answer has
// come without the calls. The message waits outside of its lane. An approval puts the message into the lane, and its
// turn makes exactly the calls that were approved. Every other end of the request ends the message, and no turn runs.
// The message is stored with this, so that a replay and a restart keep it. No sender can write one.
type Detached struct {
	Request int64      `json:"request"`
	Calls   []ToolCall `json:"calls"`
	Taint   string     `json:"taint,omitempty"` // [Answer].Taint of the answer with the calls
}

// DeferredToApproval is the reason of the message of a detached request while its request is open.
const DeferredToApproval = "approval"

// approvalMessages is the kind in the ids of messages about approvals: see [OwnID].
const approvalMessages = "approval"

// MaxDetachedRefusals is how many requests of one message can be refused before one is detached. A detached request is
// shown twice, and a message shows its requests [MaxRefusals] times.
const MaxDetachedRefusals = MaxRefusals - 2

// Detach is the message of a detached request, whose calls the delivery's turn has made. It speaks for the same sender.
func (d Delivery) Detach(calls []Approval) Message {
	of := calls[0]
	detached := Detached{Request: of.Request, Taint: of.Taint}
	for i, call := range calls {
		detached.Calls = append(detached.Calls, ToolCall{
			ID: fmt.Sprintf("approval_%d_%d", of.Request, i+1), Tool: call.Bound.Tool, Args: call.Bound.Args,
		})
	}
	m := d.Message
	text := fmt.Sprintf("[corebot] Approval %d was given after your answer. Its calls run now, and their results "+
		"follow. Tell the chat what came of them.", of.Request)
	return Message{
		ID: OwnID(approvalMessages, of.Request, "run"), Direction: Inbound, Key: m.Key, Kind: KindPrompt,
		Sender: m.Sender, SenderName: m.SenderName, Parts: TextPart(text), Detached: &detached,
		Envelope: Envelope{Group: m.Envelope.Group, DeliverAt: of.ExpiresAt}, Trace: m.Trace,
	}
}

// RunOfApproval reads the request from the id of the message of a detached request.
func RunOfApproval(messageID string) (request int64, ok bool) {
	parts, ok := ownParts(approvalMessages, messageID)
	if !ok || len(parts) != 2 || parts[1] != "run" {
		return 0, false
	}
	request, err := strconv.ParseInt(parts[0], 10, 64)
	return request, err == nil
}

// OfApproval says whether a history entry tells of the end of a detached request whose calls did not run.
func (e HistoryEntry) OfApproval() bool {
	return e.Speaker == SpeakerAssistant && isOwn(approvalMessages, e.MessageID)
}

// HowToDeclare names the settings by which the operator declares that a tool of an MCP server only reads. Calls of such
// a tool run without an approval in turns that have read text from outside.
const HowToDeclare = "`readOnlyTools` in .mcp.json, or `corebot mcp approve --read-only`"

// maxDeclarable bounds how many tools one sentence names.
const maxDeclarable = 4

// WayOut says to the operator how tools of a request run without an approval from then on. It is empty if none of the
// calls is [Approval.Declarable]. The text is Corebot's own but for the names of tools, which have letters, digits and
// "_-" alone. It does not say that the tools only read: their servers say so, and can lie.
func WayOut(calls []Approval) string {
	var names []string
	for _, a := range calls {
		if name := Plainly(a.Bound.Tool); a.Declarable && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	reads, them := "only reads", "it"
	switch n := len(names); {
	case n == 0:
		return ""
	case n > maxDeclarable:
		names = append(names[:maxDeclarable], fmt.Sprintf("%d more tools of the request", n-maxDeclarable))
		fallthrough
	case n > 1:
		reads, them = "only read", "them"
	}
	all := strings.Join(names, " and ")
	if last := len(names) - 1; last > 1 {
		all = strings.Join(names[:last], ", ") + " and " + names[last]
	}
	return fmt.Sprintf("If you know that %s %s, %s, lets %s run without an approval.", all, reads, HowToDeclare, them)
}
