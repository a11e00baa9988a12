package storagetest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/corebot/corebot"
)

// Facts are what agents know of people and things. They guarantee:
//
//   - A chat sees its own facts, those of its account of a channel, and those of its agent, and no others.
//   - Keys that look alike do not share facts.
//   - A fact of one object supersedes the facts of its sender about the same, and nobody else's.
//   - A tainted fact supersedes none that is its sender's own, and is superseded by the same fact without taint.
//   - A fact that is stored again is the same fact.
//   - A superseded or deleted fact is not recalled.
//   - Facts and the step that found them are one commit.
//   - A fact is forgotten only where it is seen, and only if the caller may.
//   - What was forgotten stays forgotten: no message gives the same fact again, nor its message any other.
//   - What others forgot, and what was forgotten elsewhere, leaves out no fact.
//   - Who asks for a forgotten fact gets it again, as does who has something remembered in a later message with it.
//   - Of a deleted chat no fact is left, also of those that other chats saw.
//   - A chat has a limit of facts, and its oldest go first, superseded ones before others.
//   - However much others say, nobody's facts go for it, and they are recalled for him.
type Facts interface {
	Learn(ctx context.Context, facts ...corebot.Fact) error
	Recall(ctx context.Context, k corebot.Key, text string, limit int) ([]corebot.Fact, error)
	RecallFor(ctx context.Context, k corebot.Key, who corebot.Principal, text string, limit int) ([]corebot.Fact, error)
	Page(ctx context.Context, k corebot.Key, all bool, limit int) ([]corebot.Fact, error)
	Forget(ctx context.Context, k corebot.Key, ids []int64, may func(corebot.Fact) bool) (int, error)
	DeleteChat(ctx context.Context, k corebot.Key) (int64, error)
}

func factSpecs() []spec {
	return []spec{
		{
			"A chat sees its own facts, those of its account of a channel, and those of its agent, and no others.",
			factsHaveScopes,
		},
		{"Keys that look alike do not share facts.", factsOfLikeKeys},
		{
			"A fact of one object supersedes the facts of its sender about the same, and nobody else's.",
			factsSupersede,
		},
		{
			"A tainted fact supersedes none that is its sender's own, " +
				"and is superseded by the same fact without taint.",
			taintedFactsSupersedeTaintedOnes,
		},
		{"A fact that is stored again is the same fact.", factsAreStoredOnce},
		{"A superseded or deleted fact is not recalled.", factsThatAreGone},
		{"Facts and the step that found them are one commit.", factsAndStep},
		{"A fact is forgotten only where it is seen, and only if the caller may.", factsAreForgotten},
		{
			"What was forgotten stays forgotten: no message gives the same fact again, nor its message any other.",
			forgottenFactsStay,
		},
		{"What others forgot, and what was forgotten elsewhere, leaves out no fact.", forgottenByOthers},
		{
			"Who asks for a forgotten fact gets it again, " +
				"as does who has something remembered in a later message with it.",
			forgottenFactsAskedFor,
		},
		{"Of a deleted chat no fact is left, also of those that other chats saw.", factsGoWithTheirChat},
		{"A chat has a limit of facts, and its oldest go first, superseded ones before others.", factsHaveALimit},
		{"However much others say, nobody's facts go for it, and they are recalled for him.", factsAgainstAFlood},
	}
}

func fact(k corebot.Key, who, subject, relation, object string) corebot.Fact {
	return corebot.Fact{
		Key: k, Scope: corebot.FactsOfChat, Subject: subject, Relation: relation, Object: object, Sender: person(who),
		MessageID: "1",
	}
}

// objects are the objects of facts, sorted.
func objects(facts []corebot.Fact) []string {
	out := []string{}
	for _, f := range facts {
		out = append(out, f.Object)
	}
	slices.Sort(out)
	return out
}

func (s *suite) recalls(k corebot.Key, text string) []string {
	s.t.Helper()
	found, err := s.Facts.Recall(s.ctx(), k, text, 100)
	s.must(err)
	return objects(found)
}

func (s *suite) known(k corebot.Key, all bool) []string {
	s.t.Helper()
	found, err := s.Facts.Page(s.ctx(), k, all, 1000)
	s.must(err)
	return objects(found)
}

func factsHaveScopes(s *suite) {
	one, two := key("a"), key("b")
	account, channel, agent := one, one, agentKey("other", "a")
	account.Account, channel.Channel = "work", "elsewhere"
	in := thread("a", "t")
	scopes := []corebot.FactScope{corebot.FactsOfChat, corebot.FactsOfChannel, corebot.FactsOfAgent}
	for name, k := range map[string]corebot.Key{
		"one": one, "two": two, "account": account, "channel": channel, "agent": agent, "thread": in,
	} {
		for _, scope := range scopes {
			f := fact(k, "ann", "tea "+name, "is", name+" "+string(scope))
			f.Scope = scope
			s.must(s.Facts.Learn(s.ctx(), f))
		}
	}
	ofMain := func(own string, channels ...string) (want []string) {
		want = append(want, own+" chat")
		for _, c := range channels {
			want = append(want, c+" channel")
		}
		for _, c := range []string{"one", "two", "account", "channel", "thread"} {
			want = append(want, c+" agent")
		}
		slices.Sort(want)
		return want
	}
	for name, c := range map[string]struct {
		of   corebot.Key
		want []string
	}{
		"one":     {one, ofMain("one", "one", "two", "thread")},
		"two":     {two, ofMain("two", "one", "two", "thread")},
		"thread":  {in, ofMain("thread", "one", "two", "thread")},
		"account": {account, ofMain("account", "account")},
		"channel": {channel, ofMain("channel", "channel")},
		"agent":   {agent, []string{"agent agent", "agent channel", "agent chat"}},
	} {
		s.equal("the facts of "+name, s.known(c.of, true), c.want)
		s.equal("recalled by "+name, s.recalls(c.of, "Where is my TEA?"), c.want)
	}
}

func factsOfLikeKeys(s *suite) {
	keys := []corebot.Key{
		key("a"), key("A"), key("a "), key("a:"), key("a:t"), thread("a", "t"), key("a%3At"), key("а"), // Cyrillic
		{Agent: "main", Channel: "test", Account: "a", Chat: "b"},
		{Agent: "main", Channel: "test:a", Chat: "b"},
		{Agent: "main:test", Channel: "a", Chat: "b"},
		{Agent: "main", Channel: "tést", Chat: "a"},
		{Agent: "main", Channel: "te\u0301st", Chat: "a"}, // the same letters, in other code points
	}
	for i, k := range keys {
		s.must(s.Facts.Learn(s.ctx(), fact(k, "ann", "tea", "is", fmt.Sprint(i))))
	}
	for i, k := range keys {
		s.equal(k.String(), s.recalls(k, "tea"), []string{fmt.Sprint(i)})
	}
}

func factsSupersede(s *suite) {
	say := func(who, subject, object string, replaces bool) {
		f := fact(key("a"), who, subject, "lives in", object)
		f.Replaces = replaces
		s.must(s.Facts.Learn(s.ctx(), f))
	}
	say("ann", "Ann", "Malmö", true)
	say("bob", "ann", "Paris", true) // what bob says of ann
	say("ann", "ANN", "Lund", true)
	say("ann", "the cat", "Ystad", true)
	s.equal("what holds", s.known(key("a"), false), []string{"Lund", "Paris", "Ystad"})
	s.equal("with what was superseded", s.known(key("a"), true), []string{"Lund", "Malmö", "Paris", "Ystad"})
	say("ann", "Ann", "Bergen", false) // both hold
	s.equal("what holds", s.known(key("a"), false), []string{"Bergen", "Lund", "Paris", "Ystad"})
}

// Others can have told the model which of ann's words is a fact.
func taintedFactsSupersedeTaintedOnes(s *suite) {
	say := func(object, taint string) {
		f := fact(key("a"), "ann", "ann", "lives in", object)
		f.Replaces, f.Taint = true, taint
		s.must(s.Facts.Learn(s.ctx(), f))
	}
	say("Malmö", "")
	say("Oslo", "what bob said")
	s.equal("beside a tainted one holds", s.known(key("a"), false), []string{"Malmö", "Oslo"})
	say("Rome", "what bob said")
	s.equal("of the tainted ones holds", s.known(key("a"), false), []string{"Malmö", "Rome"})
	say("Rome", "")
	all, err := s.Facts.Page(s.ctx(), key("a"), false, 10)
	s.must(err)
	if len(all) != 1 || all[0].Object != "Rome" || all[0].Taint != "" {
		s.t.Errorf("after ann said it herself holds %+v", all)
	}
	say("Rome", "what bob said")
	s.equal("there are", len(s.known(key("a"), true)), 4)
	s.equal("and again there holds", s.known(key("a"), false), []string{"Rome"})
}

func factsAreStoredOnce(s *suite) {
	for range 3 {
		f := fact(key("a"), "ann", "Ann", "likes", "Tea")
		s.must(s.Facts.Learn(s.ctx(), f, f))
	}
	s.must(s.Facts.Learn(s.ctx(), fact(key("a"), "ann", "ANN", "Likes", "tea!")))
	s.equal("there is", s.known(key("a"), true), []string{"Tea"})
}

func factsThatAreGone(s *suite) {
	for _, city := range []string{"Malmö", "Lund"} {
		f := fact(key("a"), "ann", "Ann", "lives in", city)
		f.Replaces = true
		s.must(s.Facts.Learn(s.ctx(), f))
	}
	s.equal("of Malmö", s.recalls(key("a"), "malmo"), []string{})
	s.equal("of Ann", s.recalls(key("a"), "ann live"), []string{"Lund"})
	found, err := s.Facts.Recall(s.ctx(), key("a"), "lund", 10)
	s.must(err)
	n, err := s.Facts.Forget(s.ctx(), key("a"), []int64{found[0].ID}, func(corebot.Fact) bool { return true })
	s.must(err)
	s.equal("forgotten", n, 1)
	s.equal("of Ann", s.recalls(key("a"), "ann lives lund"), []string{})
}

func factsAndStep(s *suite) {
	d := s.begin(key("a"), "1")
	step := corebot.Step{Position: 0, Kind: corebot.StepFacts, State: corebot.StepDone, Answer: &corebot.Answer{}}
	stale := d
	stale.Epoch--
	if err := s.Journal.Learn(s.ctx(), stale, step, []corebot.Fact{fact(key("a"), "ann", "x", "is", "y")}); !errors.Is(
		err, corebot.ErrLeaseLost) {
		s.t.Errorf("without the lease: %v", err)
	}
	bad := fact(key("a"), "ann", "x", "is", "")
	if err := s.Journal.Learn(s.ctx(), d, step, []corebot.Fact{fact(key("a"), "ann", "x", "is", "y"), bad}); !errors.Is(
		err, corebot.ErrInvalid) {
		s.t.Errorf("a fact without an object: %v", err)
	}
	s.equal("of both is left", s.known(key("a"), true), []string{})
	s.must(s.Journal.Learn(s.ctx(), d, step, []corebot.Fact{fact(key("a"), "ann", "x", "is", "y")}))
	s.reopen()
	d = s.claim()
	s.equal("the journal", len(d.Journal), 1)
	s.equal("the facts", s.known(key("a"), true), []string{"y"})
}

func factsAreForgotten(s *suite) {
	s.must(s.Facts.Learn(s.ctx(), fact(key("a"), "ann", "tea", "is", "hot"), fact(key("a"), "bob", "tea", "is", "cold"),
		fact(key("b"), "ann", "tea", "is", "green")))
	var ids []int64
	for _, k := range []corebot.Key{key("a"), key("b")} {
		all, err := s.Facts.Page(s.ctx(), k, true, 10)
		s.must(err)
		for _, f := range all {
			ids = append(ids, f.ID)
		}
	}
	n, err := s.Facts.Forget(s.ctx(), key("a"), ids, func(f corebot.Fact) bool { return f.Sender == person("ann") })
	s.must(err)
	s.equal("forgotten", n, 1)
	s.equal("left", append(s.known(key("a"), true), s.known(key("b"), true)...), []string{"cold", "green"})
}

func factsGoWithTheirChat(s *suite) {
	for _, chat := range []string{"a", "b"} {
		for _, scope := range []corebot.FactScope{corebot.FactsOfChat, corebot.FactsOfChannel, corebot.FactsOfAgent} {
			f := fact(key(chat), "ann", "tea", "is", chat+" "+string(scope))
			f.Scope = scope
			s.must(s.Facts.Learn(s.ctx(), f))
		}
	}
	n, err := s.Facts.DeleteChat(s.ctx(), key("a"))
	s.must(err)
	s.equal("deleted", n, 3)
	s.equal("a sees", s.known(key("a"), true), []string{"b agent", "b channel"})
	s.equal("a recalls", s.recalls(key("a"), "tea"), []string{"b agent", "b channel"})
	s.equal("b sees", s.known(key("b"), true), []string{"b agent", "b channel", "b chat"})
}

func factsHaveALimit(s *suite) {
	// Four facts are over the limit, and four are superseded.
	old := fact(key("a"), "ann", "first", "is", "old")
	s.must(s.Facts.Learn(s.ctx(), old))
	var all []corebot.Fact
	for i := range corebot.MaxFacts + 3 {
		f := fact(key("a"), "ann", "thing", "is", fmt.Sprint(i))
		f.Replaces = i < 5 // the first of them are superseded by one another
		all = append(all, f)
	}
	s.must(s.Facts.Learn(s.ctx(), all...))
	found, err := s.Facts.Page(s.ctx(), key("a"), true, 2*corebot.MaxFacts)
	s.must(err)
	s.equal("there are", len(found), corebot.MaxFacts)
	if !slices.Contains(s.recalls(key("a"), "first"), "old") {
		s.t.Error("a fact that holds went before superseded ones")
	}
}

func factsAgainstAFlood(s *suite) {
	for i := range 3 { // the oldest facts of the chat, one of them superseded
		f := fact(key("a"), "ann", "the office", "is in", fmt.Sprint("Malmö", i))
		f.Replaces = i == 1
		s.must(s.Facts.Learn(s.ctx(), f))
	}
	var flood []corebot.Fact
	for i := range corebot.MaxFacts + 100 {
		flood = append(flood, fact(key("a"), "mallory", "the office", "is in", fmt.Sprint("Oslo ", i)))
	}
	s.must(s.Facts.Learn(s.ctx(), flood...))
	all, err := s.Facts.Page(s.ctx(), key("a"), true, 2*corebot.MaxFacts)
	s.must(err)
	s.equal("there are", len(all), corebot.MaxFacts)
	recalled := func(who string) (own []string) {
		found, err := s.Facts.RecallFor(s.ctx(), key("a"), person(who), "Where is the office?", 12)
		s.must(err)
		s.equal("recalled are", len(found), 12)
		for _, f := range found {
			if f.Sender == person("ann") {
				own = append(own, f.Object)
			}
		}
		slices.Sort(own)
		return own
	}
	s.equal("recalled for ann", recalled("ann"), []string{"Malmö1", "Malmö2"})
	s.equal("recalled for mallory", len(recalled("mallory")), 0)
}

// told is a fact that a model found in a message.
func told(k corebot.Key, who, message, relation, object string) corebot.Fact {
	f := fact(k, who, who+" ("+person(who).Label()+")", relation, object)
	f.MessageID = message
	return f
}

// finds has a model find facts in messages of a chat, in a turn of its own.
func (s *suite) finds(k corebot.Key, turn string, facts ...corebot.Fact) {
	s.t.Helper()
	d := s.begin(k, turn)
	step := corebot.Step{Kind: corebot.StepFacts, State: corebot.StepDone, Answer: &corebot.Answer{}}
	s.must(s.Journal.Learn(s.ctx(), d, step, facts))
	s.commit(d, corebot.Result{Outcome: answered()})
}

// forgets has all facts with an object forgotten.
func (s *suite) forgets(k corebot.Key, object string) {
	s.t.Helper()
	all, err := s.Facts.Page(s.ctx(), k, true, 1000)
	s.must(err)
	var ids []int64
	for _, f := range all {
		ids = append(ids, f.ID)
	}
	n, err := s.Facts.Forget(s.ctx(), k, ids, func(f corebot.Fact) bool { return f.Object == object })
	s.must(err)
	s.equal("forgotten", n, 1)
}

func forgottenFactsStay(s *suite) {
	k := key("a")
	malmo, nuts := told(k, "ann", "m1", "lives in", "Malmö"), told(k, "ann", "m1", "cannot eat", "nuts")
	cat := told(k, "ann", "m3", "has", "a cat")
	s.finds(k, "first", malmo, nuts, cat)
	s.forgets(k, "Malmö")
	s.equal("of its message is left", s.known(k, true), []string{"a cat", "nuts"})
	s.reopen()
	decomposed, capital := malmo, malmo
	decomposed.Object, decomposed.MessageID = "Malmo\u0308", "m4"
	capital.Subject, capital.Relation, capital.Object, capital.MessageID = "ANN ("+person("ann").Label()+")",
		"LIVES", "in  MALMÖ!", "m5"
	renamed := malmo
	renamed.Subject, renamed.MessageID = "Annie ("+person("ann").Label()+")", "m6"
	s.finds(k, "again", malmo, decomposed, capital, renamed, nuts, cat,
		told(k, "ann", "m1", "home", "Malmö in Sweden"), told(k, "ann", "m2", "lives in", "Lund"))
	s.equal("after the messages were looked at again", s.known(k, true), []string{"Lund", "a cat", "nuts"})

	// A superseded fact was not forgotten.
	f := told(k, "ann", "m7", "lives in", "Ystad")
	f.Replaces = true
	s.finds(k, "moved", f)
	s.equal("holds", s.known(k, false), []string{"Ystad", "a cat", "nuts"})
	s.finds(k, "back", told(k, "ann", "m8", "lives in", "Lund"))
	s.equal("holds", s.known(k, false), []string{"Lund", "Ystad", "a cat", "nuts"})
}

// A stranger says the same, in a message with the same id, and has it forgotten.
func forgottenByOthers(s *suite) {
	k := key("a")
	s.finds(k, "first", told(k, "mallory", "m1", "lives in", "Malmö"))
	s.forgets(k, "Malmö")
	other, elsewhere := key("b"), agentKey("other", "a")
	for i, f := range []corebot.Fact{
		told(k, "ann", "m1", "lives in", "Malmö"),
		told(other, "mallory", "m1", "lives in", "Malmö"),
		told(elsewhere, "mallory", "m1", "lives in", "Malmö"),
	} {
		s.finds(f.Key, string(rune('a'+i)), f)
		s.equal("known", s.known(f.Key, true), []string{"Malmö"})
	}
	wide := told(k, "mallory", "m2", "lives in", "Malmö")
	wide.Scope = corebot.FactsOfAgent
	s.finds(k, "wide", wide)
	s.equal("of the agent", s.known(k.OfAgent(), true), []string{"Malmö"})
}

func forgottenFactsAskedFor(s *suite) {
	k := key("a")
	malmo := told(k, "ann", "m1", "lives in", "Malmö")
	forgotten := func() {
		s.t.Helper()
		s.forgets(k, "Malmö")
		malmo.MessageID = "m2"
		s.finds(k, time.Now().String(), malmo)
		s.equal("before somebody asks", s.known(k, true), []string{})
		time.Sleep(time.Second)
	}
	s.finds(k, "first", malmo)
	forgotten()
	s.must(s.Facts.Learn(s.ctx(), malmo))
	s.equal("after somebody has asked", s.known(k, true), []string{"Malmö"})
	forgotten()
	notes := func(who string) {
		s.must(s.Chats(corebot.AuditEvent{}).SetMemoryNotes(s.ctx(), k, []corebot.MemoryNote{
			{Ends: 1, Sender: person(who), MessageID: "m3", At: time.Now()},
		}, nil, ""))
	}
	malmo.MessageID = "m3"
	notes("mallory") // who had something remembered in a message with the same id
	s.finds(k, "mallory", malmo)
	s.equal("after somebody else had a line written", s.known(k, true), []string{})
	notes("ann")
	s.finds(k, "ann", malmo)
	s.equal("after she had a line written", s.known(k, true), []string{"Malmö"})
	malmo.MessageID = "m4"
	s.finds(k, "later", malmo)
	s.equal("and later", s.known(k, true), []string{"Malmö"})
	s.forgets(k, "Malmö")
	malmo.MessageID = "m3" // from before it was forgotten
	s.finds(k, "once more", malmo)
	s.equal("forgotten once more", s.known(k, true), []string{})
}
