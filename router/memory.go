package router

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/agent/memory"
	"github.com/corebot/corebot/internal/runes"
	"github.com/corebot/corebot/internal/terms"
)

// Remembered is what chats remember: a page each, and facts.
type Remembered interface {
	// Pieces is the page of a chat; whole is false if the page is too large and only its beginning is there.
	Pieces(ctx context.Context, k corebot.Key) (pieces []memory.Piece, whole bool, err error)
	// DropLines deletes lines of the page, and counts them. The audit has the command that asks for it.
	DropLines(ctx context.Context, k corebot.Key, goes func(p memory.Piece, text string) bool) (int, error)
	// Page gives the newest facts that a chat sees; with all, superseded ones too.
	Page(ctx context.Context, k corebot.Key, all bool, limit int) ([]corebot.Fact, error)
	// Recall gives the facts with words of a text, the best first.
	Recall(ctx context.Context, k corebot.Key, text string, limit int) ([]corebot.Fact, error)
	// Forget deletes those of the facts that the chat sees and for which may is true, and counts them.
	// The audit has what by asks for.
	ForgetFor(ctx context.Context, by corebot.AuditEvent, k corebot.Key, ids []int64,
		may func(corebot.Fact) bool) (int, error)
}

const (
	memoryShown  = 6 << 10 // bytes of a list
	factsShown   = 50
	lineShown    = 300 // bytes of a line of the list
	mostForgot   = 50  // numbers of one command
	leastOfLine  = 6   // digits of the number of a line: fewer would soon mean a line that came later
	digitsOfLine = 9
)

// memory answers a /memory in its place in the lane, so that the answers before it have remembered what they will. A
// line has a number that is made of its text: it means the same line after others have gone. So a command that a crash
// cuts off can be carried out again.
func (r *Router) memory(ctx context.Context, d corebot.Delivery, c corebot.Command) corebot.Result {
	if r.opts.Remembered == nil {
		return says(d, c, "Nothing is remembered here.")
	}
	words := strings.Fields(c.Args)
	result, err := corebot.Result{}, error(nil)
	if len(words) > 0 && words[0] == "forget" {
		result, err = r.forget(ctx, d, c, words[1:])
	} else {
		result, err = r.remembered(ctx, d, c)
	}
	if err == nil {
		return result
	}
	o := r.queue.Verdict(d, err)
	if o.Verb == corebot.Dead {
		return r.deadLetter(ctx, d, o, err, nil)
	}
	return corebot.Result{Outcome: o}
}

// remembered lists the lines and the facts of a chat, or those with all words of the command.
func (r *Router) remembered(ctx context.Context, d corebot.Delivery, c corebot.Command) (corebot.Result, error) {
	k := d.Message.Key
	query := terms.Parse(c.Args)
	if c.Args != "" && len(query.Phrases) == 0 {
		return says(d, c, "Say "+corebot.UsageOf(c.Name)+"."), nil
	}
	pieces, whole, err := r.opts.Remembered.Pieces(ctx, k)
	if err != nil {
		return corebot.Result{}, fmt.Errorf("read the memory of %s: %w", k, err)
	}
	var facts []corebot.Fact
	if c.Args == "" {
		facts, err = r.opts.Remembered.Page(ctx, k, false, factsShown+1)
	} else {
		facts, err = r.opts.Remembered.Recall(ctx, k, c.Args, factsShown+1)
	}
	if err != nil {
		return corebot.Result{}, fmt.Errorf("read the facts of %s: %w", k, err)
	}
	var rows []string
	numbers := numbersOf(pieces)
	for _, p := range pieces {
		for text := range strings.Lines(p.Text) {
			text = lineOf(text)
			if text != "" && query.In(text).Phrases == len(query.Phrases) {
				rows = append(rows, fmt.Sprintf("L%s %s (%s)", numbers[text], clipped(text), saidBy(d, p.MemoryNote)))
			}
		}
	}
	lines := len(rows)
	for _, f := range facts[:min(len(facts), factsShown)] {
		note := corebot.MemoryNote{
			Sender: f.Sender, MessageID: f.MessageID, Taint: f.Taint, Trusted: f.Trusted, At: f.At,
		}
		rows = append(rows, fmt.Sprintf("F%d %s (%s)", f.ID, clipped(f.String()), saidBy(d, note)))
	}
	return says(d, c, memoryList(rows, lines, c.Args != "", whole, len(facts) > factsShown)), nil
}

// memoryList is the answer with as many rows as have room; the first of them are lines, the others facts.
func memoryList(rows []string, lines int, searched, whole, more bool) string {
	if len(rows) == 0 && searched {
		return "Nothing with these words is remembered in this chat."
	}
	if len(rows) == 0 {
		return "Nothing is remembered in this chat."
	}
	var b strings.Builder
	for i, row := range rows {
		switch {
		case i == 0 && lines > 0:
			b.WriteString("Lines that are remembered in this chat:\n")
		case i == lines:
			b.WriteString("Facts, which are what somebody said:\n")
		}
		if b.Len()+len(row) > memoryShown {
			fmt.Fprintf(&b, "and %d more: /memory WORDS finds them\n", len(rows)-i)
			more = false
			break
		}
		b.WriteString("- " + row + "\n")
	}
	if more {
		b.WriteString("and older facts: /memory WORDS finds them\n")
	}
	if !whole {
		b.WriteString("The page of this chat is too large: this is its beginning. An operator shortens it.\n")
		rows = rows[lines:] // no line of it can be forgotten
	}
	if len(rows) > 0 {
		b.WriteString("/memory forget NUMBER forgets one, such as " + strings.Fields(rows[0])[0] + ".")
	}
	return strings.TrimSpace(b.String())
}

func lineOf(text string) string { return strings.TrimSpace(strings.ToValidUTF8(text, "\uFFFD")) }

func clipped(text string) string {
	if len(text) > lineShown {
		text = runes.Head(text, lineShown) + "…"
	}
	return corebot.Plainly(text)
}

// saidBy says who had something remembered, for the one who asks.
func saidBy(d corebot.Delivery, n corebot.MemoryNote) string {
	by := "nobody knows who wrote it"
	switch {
	case n.Trusted:
		by = "an operator stands for it"
	case n.Sender.ID != "" && n.Sender == d.Message.Sender:
		by = "by you"
	case n.Sender.ID != "":
		by = "by " + n.Sender.Label()
	}
	if !n.At.IsZero() {
		by += n.At.Local().Format(", 2006-01-02")
	}
	if n.Taint != "" && n.Taint != memory.Unknown {
		by += ", others can have had a hand in it"
	}
	return by
}

// digitsOf is the number of a line, with all digits.
func digitsOf(text string) string {
	sum := sha256.Sum256([]byte(text))
	return fmt.Sprintf("%0*d", digitsOfLine, binary.BigEndian.Uint64(sum[:])%uint64(math.Pow10(digitsOfLine)))
}

// numbersOf gives each text of a page the fewest digits that no other text of the page begins with.
func numbersOf(pieces []memory.Piece) map[string]string {
	all := map[string]string{}
	for _, p := range pieces {
		for text := range strings.Lines(p.Text) {
			text = lineOf(text)
			all[text] = digitsOf(text)
		}
	}
	begins := map[string]int{}
	for _, digits := range all {
		for n := leastOfLine; n <= digitsOfLine; n++ {
			begins[digits[:n]]++
		}
	}
	for text, digits := range all {
		for n := leastOfLine; n < digitsOfLine; n++ {
			if begins[digits[:n]] == 1 {
				all[text] = digits[:n]
				break
			}
		}
	}
	return all
}

// wanted are the numbers of a /memory forget.
type wanted struct {
	lines []string // the first digits
	facts []int64
}

func wantedOf(words []string) (w wanted, ok bool) {
	for _, word := range words {
		word = strings.ToUpper(strings.TrimRight(word, ","))
		kind, digits := word[:min(1, len(word))], word[min(1, len(word)):]
		n, err := strconv.ParseInt(digits, 10, 64)
		switch {
		case err != nil || n < 0:
			return w, false
		case kind == "F":
			w.facts = append(w.facts, n)
		case kind == "L" && len(digits) >= leastOfLine && len(digits) <= digitsOfLine:
			w.lines = append(w.lines, digits)
		default:
			return w, false
		}
	}
	return w, len(words) > 0 && len(words) <= mostForgot
}

// forget deletes lines and facts by their numbers: those of the sender, and for an admin of the chat those of others.
func (r *Router) forget(ctx context.Context, d corebot.Delivery, c corebot.Command, words []string) (corebot.Result,
	error,
) {
	w, ok := wantedOf(words)
	if !ok {
		return says(d, c, fmt.Sprintf("Say which: /memory forget NUMBER, with numbers of lines and facts as /memory "+
			"lists them, at most %d.", mostForgot)), nil
	}
	m := d.Message
	_, by, err := r.judge(ctx, m, c, m.Sender)
	if err != nil {
		return corebot.Result{}, err
	}
	others, denied, err := r.judge(ctx, m, c, corebot.Principal{})
	if err != nil {
		return corebot.Result{}, err
	}
	mine := func(p corebot.Principal) bool { return others.Allow || m.Sender.ID != "" && p == m.Sender }
	lines, kept, missing, whole, err := r.forgetLines(ctx, m.Key, w.lines, mine)
	if several := (*severalLines)(nil); errors.As(err, &several) {
		return says(d, c, several.Error()), nil
	}
	if err != nil {
		return corebot.Result{}, fmt.Errorf("forget lines of %s: %w", m.Key, err)
	}
	facts, keptFacts, err := r.forgetFacts(ctx, by, m.Key, w.facts,
		corebot.ForgetFacts{Own: m.Sender, Everyone: others.Allow})
	if err != nil {
		return corebot.Result{}, fmt.Errorf("forget facts of %s: %w", m.Key, err)
	}
	kept, missing = kept+keptFacts, missing+len(w.facts)-facts-keptFacts
	text := forgotText(lines, facts, kept, missing)
	if !whole {
		text += " The page of this chat is too large for it: an operator shortens the page first."
	}
	result := says(d, c, text)
	switch {
	case lines > 0:
		by.Args, by.Outcome = fmt.Sprintf(`{"lines":%d}`, lines), corebot.OutcomeSuccess
		result.Command = by
	case facts == 0 && kept > 0:
		result.Command = denied
		result.Outcome.End, result.Outcome.Reason = corebot.EndRefused, denied.Rule
	}
	return result, nil
}

// forgetFacts deletes the facts that may go, and counts those that stay.
func (r *Router) forgetFacts(ctx context.Context, by corebot.AuditEvent, k corebot.Key, ids []int64,
	may corebot.ForgetFacts,
) (n, kept int, err error) {
	if len(ids) == 0 {
		return 0, 0, nil
	}
	stays := map[int64]bool{} // the store can ask again
	n, err = r.opts.Remembered.ForgetFor(ctx, by, k, ids, func(f corebot.Fact) bool {
		if !may.Takes(f) {
			stays[f.ID] = true
		}
		return !stays[f.ID]
	})
	return n, len(stays), err
}

// severalLines is the error of numbers that more than one line begins with. Nothing is forgotten then.
type severalLines struct {
	digits []string
	all    map[string]string // the numbers of all lines, by their texts
}

func (e *severalLines) Error() string {
	var rows []string
	for text, number := range e.all {
		if slices.ContainsFunc(e.digits, func(digits string) bool {
			return text != "" && strings.HasPrefix(digitsOf(text), digits)
		}) {
			rows = append(rows, fmt.Sprintf("- L%s %s\n", number, clipped(text)))
		}
	}
	slices.Sort(rows)
	const shown = 20
	more := ""
	if len(rows) > shown {
		rows, more = rows[:shown], "and others: /memory WORDS finds them\n"
	}
	return "Nothing is forgotten, because a number means several lines. Say all digits of the one you mean:\n" +
		strings.TrimSpace(strings.Join(rows, "")+more)
}

// forgetLines deletes lines by the first digits of their numbers. It counts the lines that stay because others said
// them, and the numbers that mean no line. Digits that several lines begin with are an error, and no line is forgotten.
// Without the whole page no number means a line.
func (r *Router) forgetLines(ctx context.Context, k corebot.Key, numbers []string,
	mine func(corebot.Principal) bool,
) (n, kept, missing int, whole bool, err error) {
	if len(numbers) == 0 {
		return 0, 0, 0, true, nil
	}
	pieces, whole, err := r.opts.Remembered.Pieces(ctx, k)
	if err != nil || !whole {
		return 0, 0, len(numbers), whole, err
	}
	var unclear []string
	texts, all := map[string]bool{}, numbersOf(pieces)
	for _, digits := range numbers {
		var meant []string
		for text := range all {
			if text != "" && strings.HasPrefix(digitsOf(text), digits) {
				meant = append(meant, text)
			}
		}
		switch {
		case len(meant) == 0:
			missing++
		case len(meant) > 1:
			unclear = append(unclear, digits)
		default:
			texts[meant[0]] = true
		}
	}
	if len(unclear) > 0 {
		return 0, 0, 0, true, &severalLines{unclear, all}
	}
	if len(texts) == 0 {
		return 0, 0, missing, true, nil
	}
	n, err = r.opts.Remembered.DropLines(ctx, k, func(p memory.Piece, text string) bool {
		if !texts[lineOf(text)] {
			return false
		}
		whose := p.Sender
		if p.Trusted {
			whose = corebot.Principal{} // the operator's
		}
		if !mine(whose) {
			kept++
		}
		return mine(whose)
	})
	if errors.Is(err, corebot.ErrNotFound) { // the page has gone meanwhile
		err = nil
	}
	return n, kept, missing, true, err
}

func forgotText(lines, facts, kept, missing int) string {
	var all []string
	if lines+facts > 0 {
		all = append(all, fmt.Sprintf("Forgotten: %s and %s.", counted(lines, "line"), counted(facts, "fact")))
	}
	if kept > 0 {
		all = append(all, fmt.Sprintf("%d of them are of others: an admin of this chat can have them forgotten.", kept))
	}
	if missing > 0 {
		all = append(all, fmt.Sprintf("%s here: /memory lists what there is.", absent(missing)))
	}
	if len(all) == 0 {
		return "Nothing like that is remembered here."
	}
	return strings.Join(all, " ")
}

func counted(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

func absent(n int) string {
	if n == 1 {
		return "One number means nothing that is remembered"
	}
	return fmt.Sprintf("%d numbers mean nothing that is remembered", n)
}
