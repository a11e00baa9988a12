package storagetest

import (
	"fmt"
	"strings"
	"time"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/internal/operate"
	"github.com/corebot/corebot/router"
)

// Books are what the calls of models used. The [Journal] guarantees how its steps are booked. The
// books guarantee:
//
//   - Use is summed over all, by agent, by chat and by principal.
//   - Two principals of one id in one chat are booked apart.
//   - Use by role follows the role that somebody has now, in the chat where it was used.
//   - In a thread the role of its chat counts, unless the thread has another.
//   - A turn counts when it is answered, and what a failed one spent is booked all the same.
//   - A token has the price of its model, and one without a price is counted as such.
//   - A day begins at midnight in the zone of the books.
//   - The rows of days add up to the use of all, newest day first.
//   - What was booked survives a restart.
type Books interface {
	router.Books
	operate.Books
}

func bookSpecs() []spec {
	return []spec{
		{"Use is summed over all, by agent, by chat and by principal.", useIsSummed},
		{"Two principals of one id in one chat are booked apart.", principalsOfOneID},
		{"Use by role follows the role that somebody has now, in the chat where it was used.", useFollowsRoles},
		{"In a thread the role of its chat counts, unless the thread has another.", useInThreadsFollowsRoles},
		{"A turn counts when it is answered, and what a failed one spent is booked all the same.", answeredTurnsCount},
		{"A token has the price of its model, and one without a price is counted as such.", tokensHavePrices},
		{"A day begins at midnight in the zone of the books.", dayBeginsInItsZone},
		{"The rows of days add up to the use of all, newest day first.", daysAddUp},
		{"What was booked survives a restart.", bookingsSurvive},
	}
}

// spend is a turn of somebody that used so many tokens of input.
func (s *suite) spend(k corebot.Key, who string, model string, tokens int64) {
	s.t.Helper()
	s.spendBy(k, person(who), model, tokens)
}

func (s *suite) spendBy(k corebot.Key, who corebot.Principal, model string, tokens int64) {
	s.t.Helper()
	m := prompt(k, fmt.Sprint(k, who, model, tokens, time.Now().UnixMilli()))
	m.Sender = who
	s.publish(m)
	s.commit(s.claim(), corebot.Result{Outcome: answered(), Spent: []corebot.ModelUsage{spent(model, tokens, 0)}})
	time.Sleep(moment)
}

func (s *suite) wantTokens(what string, f corebot.UsageFilter, want int64) {
	s.t.Helper()
	if got := s.use(f).InputTokens; got != want {
		s.t.Errorf("%s: %d tokens, want %d", what, got, want)
	}
}

func useIsSummed(s *suite) {
	s.spend(key("a"), "ann", "m", 1)
	s.spend(key("a"), "bob", "m", 10)
	s.spend(key("b"), "ann", "m", 100)
	s.spend(thread("a", "1"), "ann", "m", 1_000)
	s.spend(agentKey("other", "a"), "ann", "m", 10_000)
	s.wantTokens("all", corebot.UsageFilter{}, 11_111)
	s.wantTokens("an agent", corebot.UsageFilter{Agent: corebot.DefaultAgent}, 1_111)
	s.wantTokens("a chat", corebot.UsageFilter{Chat: key("a")}, 11)
	s.wantTokens("a thread", corebot.UsageFilter{Chat: thread("a", "1")}, 1_000)
	s.wantTokens("a principal", corebot.UsageFilter{Principal: person("ann")}, 11_101)
	s.wantTokens("nobody", corebot.UsageFilter{Principal: person("eve")}, 0)
}

func principalsOfOneID(s *suite) {
	owner := corebot.Principal{Channel: "cli", Account: "local", ID: "1000"}
	for _, who := range []corebot.Principal{owner, person("1000"), {Channel: "test", Account: "b", ID: "1000"}} {
		s.spendBy(key("a"), who, "m", 1)
		s.spendBy(key("a"), who, "m", 10)
		s.wantTokens("a principal", corebot.UsageFilter{Principal: who}, 11)
	}
	today := Accounting().Day(time.Now())
	after := ""
	for range 3 {
		rows, next, err := s.Books.Page(s.ctx(), today, today, after, 1)
		if err != nil || len(rows) != 1 || rows[0].InputTokens != 11 || rows[0].Principal.ID != "1000" {
			s.t.Errorf("the rows are %+v, %v", rows, err)
		}
		after = next
	}
	if rows, _, err := s.Books.Page(s.ctx(), today, today, after, 1); err != nil || len(rows) > 0 {
		s.t.Errorf("there are the rows %+v, too: %v", rows, err)
	}
}

func useFollowsRoles(s *suite) {
	s.spend(key("a"), "ann", "m", 1)
	s.spend(key("b"), "ann", "m", 10)
	s.spend(key("b"), "bob", "m", 100)
	s.spend(key("b"), "", "m", 1_000)
	admins, others := corebot.UsageFilter{Role: corebot.RoleAdmin}, corebot.UsageFilter{Role: corebot.RoleNormal}
	s.wantTokens("without any admin", admins, 0)
	s.grant(admin(person("ann"), key("b")))
	s.wantTokens("an admin of one chat", admins, 10)
	s.wantTokens("those who are none there", others, 1_101)
	s.grant(admin(person("bob"), everywhere))
	s.grant(admin(person("ann"), everywhere))
	s.grant(normal(person("bob"), key("b")))
	s.wantTokens("an admin everywhere", admins, 11)
	s.wantTokens("those who are none", others, 1_100)
}

func useInThreadsFollowsRoles(s *suite) {
	s.spend(thread("b", "1"), "ann", "m", 1)
	s.spend(thread("b", "2"), "ann", "m", 10)
	s.spend(thread("bb", "1"), "ann", "m", 100)
	admins, others := corebot.UsageFilter{Role: corebot.RoleAdmin}, corebot.UsageFilter{Role: corebot.RoleNormal}
	s.grant(admin(person("ann"), key("b")))
	s.wantTokens("an admin of the chat", admins, 11)
	s.wantTokens("in another chat", others, 100)
	s.grant(normal(person("ann"), thread("b", "2")))
	s.wantTokens("an admin of the chat who is none in a thread", admins, 1)
	s.wantTokens("what is left", others, 110)
}

func answeredTurnsCount(s *suite) {
	d := s.begin(key("a"), "1")
	s.commit(d, corebot.Result{Outcome: retry(), Spent: []corebot.ModelUsage{spent("m", 1, 0)}})
	s.commit(s.claim(), corebot.Result{Outcome: deadLettered(), Spent: []corebot.ModelUsage{spent("m", 10, 0)}})
	s.equal("of a turn that failed", s.use(corebot.UsageFilter{}), corebot.UsageTotals{InputTokens: 11, Cost: 11})
	s.turn(key("a"), "2", corebot.Result{Spent: []corebot.ModelUsage{spent("m", 100, 0), spent("m", 100, 0)}})
	s.equal("of both", s.use(corebot.UsageFilter{}), corebot.UsageTotals{Turns: 1, InputTokens: 211, Cost: 211})
}

func tokensHavePrices(s *suite) {
	cached := corebot.ModelUsage{Model: "m", Usage: corebot.Usage{
		InputTokens: 100, OutputTokens: 10, CacheReadTokens: 30, CacheWriteTokens: 20, EstimatedTokens: 5,
	}}
	s.turn(key("a"), "1", corebot.Result{Spent: []corebot.ModelUsage{cached, spent("free", 3, 4)}})
	unpriced := corebot.UsageTotals{Turns: 1, InputTokens: 3, OutputTokens: 4, UnpricedTokens: 7}
	want := Accounting().Book(cached).Add(unpriced)
	s.equal("the use", s.use(corebot.UsageFilter{}), want)
	if long := s.use(corebot.UsageFilter{}); long.Cost == 0 || long.CacheReadTokens != 30 || long.EstimatedTokens != 5 {
		s.t.Errorf("the use is %+v", long)
	}
	s.spend(key("a"), "ann", strings.Repeat("é", 1000)+"\xff", 1) // a provider says it
	s.equal("unpriced", s.use(corebot.UsageFilter{}).UnpricedTokens, 8)
}

// midnight sleeps until a moment before the day of the books ends, and gives the names of that day and of the next.
func (s *suite) midnight() (today, tomorrow string) {
	next := Accounting().NextDay(time.Now())
	time.Sleep(time.Until(next) - 10*moment)
	return Accounting().Day(time.Now()), Accounting().Day(next)
}

func dayBeginsInItsZone(s *suite) {
	today, tomorrow := s.midnight()
	s.spend(key("a"), "ann", "m", 1)
	time.Sleep(10 * moment)
	s.spend(key("a"), "ann", "m", 10)
	s.wantTokens("today", corebot.UsageFilter{From: today, To: today}, 1)
	s.wantTokens("tomorrow", corebot.UsageFilter{From: tomorrow, To: tomorrow}, 10)
	s.wantTokens("both", corebot.UsageFilter{From: today, To: tomorrow}, 11)
	s.wantTokens("both, in a chat", corebot.UsageFilter{From: today, To: tomorrow, Chat: key("a")}, 11)
	s.wantTokens("neither", corebot.UsageFilter{From: tomorrow, To: today}, 0)
}

func daysAddUp(s *suite) {
	today, tomorrow := s.midnight()
	s.spend(key("a"), "ann", "m", 1)
	s.spend(key("a"), "ann", "m", 2)
	s.spend(key("a"), "bob", "m", 10)
	s.spend(key("b"), "ann", "n", 100)
	time.Sleep(10 * moment)
	s.spend(key("a"), "ann", "m", 1_000)
	rows, _, err := s.Books.Page(s.ctx(), today, tomorrow, "", 10)
	s.must(err)
	var sum corebot.UsageTotals
	tokens := map[string]int64{}
	for i, r := range rows {
		sum = sum.Add(r.UsageTotals)
		tokens[strings.Join([]string{r.Day, r.Chat, r.Principal.ID, r.Model}, " ")] = r.InputTokens
		if i > 0 && r.Day > rows[i-1].Day {
			s.t.Errorf("day %s comes behind %s", r.Day, rows[i-1].Day)
		}
	}
	s.equal("the rows", tokens, map[string]int64{
		today + " main:test::a ann m": 3, today + " main:test::a bob m": 10, today + " main:test::b ann n": 100,
		tomorrow + " main:test::a ann m": 1_000,
	})
	s.equal("their sum", sum, s.use(corebot.UsageFilter{}))
	if one, _, err := s.Books.Page(s.ctx(), today, tomorrow, "", 1); err != nil || len(one) != 1 ||
		one[0].Day != tomorrow {
		s.t.Errorf("of at most one there are %+v, %v", one, err)
	}
	if first, _, err := s.Books.Page(s.ctx(), today, today, "", 10); err != nil || len(first) != 3 {
		s.t.Errorf("of the first day there are %+v, %v", first, err)
	}
}

func bookingsSurvive(s *suite) {
	s.spend(key("a"), "ann", "m", 1)
	s.reopen()
	s.spend(key("a"), "ann", "m", 10)
	s.equal("the use", s.use(corebot.UsageFilter{}), corebot.UsageTotals{Turns: 2, InputTokens: 11, Cost: 11})
}
