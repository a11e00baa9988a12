package bustest

import (
	"testing"

	"github.com/anishathalye/porcupine"

	"github.com/corebot/corebot"
)

// ms is the lease time of the suite, in the unit of the histories.
const ms = int64(lease / 1e6)

// op is an operation of a history in which everything happens one after the other.
type op struct{ call, answer any }

func published(id string, at int64, r receipt) op { return op{publishCall{id, "text of " + id, at}, r} }

func claimedAt(id string, epoch int64, attempt int, at int64, afterLease bool) op {
	return op{claimCall{}, claimAnswer{id, "text of " + id, epoch, attempt, at, at + ms, afterLease}}
}

func settledAt(epoch int64, verb corebot.OutcomeVerb, at, due int64, h held) op {
	return op{settleCall{epoch, verb, at, due}, h}
}

// inSequence gives operations calls and returns that do not overlap.
func inSequence(ops []op) []porcupine.Operation {
	history := make([]porcupine.Operation, len(ops))
	for i, o := range ops {
		history[i] = porcupine.Operation{Input: o.call, Output: o.answer, Call: int64(2 * i), Return: int64(2*i + 1)}
	}
	return history
}

// rightHistory has a duplicate, a conflict, a retry, a wait, a lease that is extended and ends, and a worker that comes
// too late.
func rightHistory() []op {
	other := op{publishCall{"1", "another text", 12}, conflict}
	return []op{
		published("1", 10, accepted), published("1", 11, duplicate), other, published("2", 13, accepted),
		claimedAt("1", 1, 1, 20, false), settledAt(1, corebot.RetryAt, 30, 100, true),
		claimedAt("1", 2, 2, 100, false), settledAt(2, corebot.Wait, 110, 200, true),
		claimedAt("1", 3, 2, 200, false),
		{extendCall{3, 300 + ms}, held(true)},
		claimedAt("1", 4, 2, 300+ms, true), settledAt(3, corebot.Done, 310+ms, 0, false),
		{extendCall{3, 500 + ms}, held(false)},
		settledAt(4, corebot.Dead, 320+ms, 0, true),
		claimedAt("2", 5, 1, 330+ms, false), settledAt(5, corebot.Done, 340+ms, 0, true),
		settledAt(5, corebot.Done, 341+ms, 0, false),
	}
}

func TestTheCheckerAcceptsARightHistory(t *testing.T) {
	if got := linearizable(inSequence(rightHistory())); got != porcupine.Ok {
		t.Errorf("the checker says %s", got)
	}
}

func TestTheCheckerRejectsEveryHistoryThatBreaksAPromise(t *testing.T) {
	for name, wrong := range map[string]struct {
		at int
		op op
	}{
		"a duplicate is accepted":             {1, published("1", 11, accepted)},
		"a new message is called a duplicate": {3, published("2", 13, duplicate)},
		"another body is taken for the same":  {2, op{publishCall{"1", "another text", 12}, duplicate}},
		"the second message comes first":      {4, claimedAt("2", 1, 1, 20, false)},
		"a message that nobody sent comes":    {4, claimedAt("3", 1, 1, 20, false)},
		"a message comes with another text": {4, op{
			claimCall{},
			claimAnswer{"1", "another text", 1, 1, 20, 20 + ms, false},
		}},
		"the epoch does not rise":             {6, claimedAt("1", 1, 2, 100, false)},
		"a retry comes before it is due":      {6, claimedAt("1", 2, 2, 99, false)},
		"a retry is not counted":              {6, claimedAt("1", 2, 1, 100, false)},
		"a wait is counted":                   {8, claimedAt("1", 3, 3, 200, false)},
		"a lane that is leased is given away": {10, claimedAt("1", 4, 2, 299+ms, true)},
		"an extended lease is called lost":    {9, op{extendCall{3, 300 + ms}, held(false)}},
		"a lease is for longer": {14, op{
			claimCall{},
			claimAnswer{"2", "text of 2", 5, 1, 330 + ms, 331 + 2*ms, false},
		}},
		"a worker that is too late settles":        {11, settledAt(3, corebot.Done, 310+ms, 0, true)},
		"a worker that is too late extends":        {12, op{extendCall{3, 500 + ms}, held(true)}},
		"the owner's settle is refused":            {13, settledAt(4, corebot.Dead, 320+ms, 0, false)},
		"a message that has ended comes again":     {14, claimedAt("1", 5, 1, 330+ms, false)},
		"a claim settles twice":                    {16, settledAt(5, corebot.Done, 341+ms, 0, true)},
		"a lease that was lost is not called lost": {10, claimedAt("1", 4, 2, 300+ms, false)},
	} {
		history := rightHistory()
		history[wrong.at] = wrong.op
		if got := linearizable(inSequence(history)); got != porcupine.Illegal {
			t.Errorf("%s: the checker says %s", name, got)
		}
	}
}

func TestTheCheckerKnowsWhatMayHaveHappenedAtTheSameTime(t *testing.T) {
	owners := func(secondCalled int64) []porcupine.Operation {
		return []porcupine.Operation{
			{Input: publishCall{"1", "text of 1", 10}, Output: accepted, Call: 0, Return: 1},
			{Input: claimCall{}, Output: claimedAt("1", 1, 1, 10, false).answer, Call: 2, Return: 3},
			{Input: settleCall{1, corebot.Done, 20, 0}, Output: held(false), Call: 4, Return: 7},
			{
				Input: claimCall{}, Output: claimedAt("1", 2, 1, 10+ms, true).answer, Call: secondCalled,
				Return: secondCalled + 1,
			},
		}
	}
	if got := linearizable(owners(5)); got != porcupine.Ok {
		t.Errorf("while the first settles another takes its lane: the checker says %s", got)
	}
	if got := linearizable(owners(8)); got != porcupine.Illegal {
		t.Errorf("nobody had the lane when the first was refused: the checker says %s", got)
	}
}
