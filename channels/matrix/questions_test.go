package matrix_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/corebot/corebot/channels/channeltest"
	"github.com/corebot/corebot/channels/matrix/matrixtest"
)

// A stranger can react to anything, as often as he likes.
func TestManyReactionsLeaveTheAnswersToTheBot(t *testing.T) {
	s, d := platform(t), &channeltest.Door{}
	s.Room(group, matrixtest.Ann, "@bob:test", "@eve:test")
	own := s.Say(matrixtest.Said{Room: group, From: matrixtest.Bot, Text: "before"})
	begun(t, s, d)() // what is said while Corebot is away comes in one piece
	for i := range 150 {
		s.Say(matrixtest.Said{
			Room: group, From: "@eve:test", Type: "m.reaction", Content: reacts(fmt.Sprint("$none", i), "👍"),
		})
	}
	s.Say(matrixtest.Said{Room: group, Text: "yes", Content: answering(own)})
	begun(t, s, d)
	until(t, "the answer is stored", func() bool { return slices.Contains(d.Texts(), "yes") })
	if got := d.Got(); len(got) != 1 || !got[0].Envelope.Mentioned {
		t.Errorf("they came in as %+v", got)
	}
}

// A stranger can answer events that do not exist, as often as he likes. The messages of others come behind his.
func TestManyRepliesOfOneLeaveQuestionsToTheOthers(t *testing.T) {
	s, d := platform(t), &channeltest.Door{}
	s.Room(group, matrixtest.Ann, "@bob:test", "@eve:test")
	own := s.Say(matrixtest.Said{Room: group, From: matrixtest.Bot, Text: "before"})
	begun(t, s, d)() // what is said while Corebot is away comes in one piece
	for i := range 150 {
		s.Say(matrixtest.Said{
			Room: group, From: "@eve:test", Text: "x", Content: answering(fmt.Sprint("$none", i)),
		})
	}
	s.Say(matrixtest.Said{Room: group, Text: "yes", Content: answering(own)})
	begun(t, s, d)
	until(t, "all is stored", func() bool { return len(d.Got()) == 151 })
	for _, in := range d.Got() {
		if is := in.Text() == "yes"; in.Envelope.Mentioned != is {
			t.Errorf("it came in as %+v", in)
		}
	}
}

func TestAFloodOfRepliesAsksTheHomeserverForAFew(t *testing.T) {
	s, d := platform(t), &channeltest.Door{}
	people := []string{matrixtest.Ann}
	for i := range 50 {
		people = append(people, fmt.Sprintf("@person%d:test", i))
	}
	s.Room(group, people...)
	begun(t, s, d)()
	for i := range 500 {
		s.Say(matrixtest.Said{
			Room: group, From: people[i%len(people)], Text: "x", Content: answering(fmt.Sprint("$none", i)),
		})
	}
	_, stop := run(t, open(t, s), d)
	until(t, "all is stored", func() bool { return len(d.Got()) == 500 })
	stop()
	if n := len(s.Calls("event")); n != 100 {
		t.Errorf("it was asked %d times", n)
	}
}

func TestAReactionToSomebodyElseSaysNothingToTheBot(t *testing.T) {
	s, d := platform(t), &channeltest.Door{}
	s.Room(group, matrixtest.Ann, "@bob:test")
	other := s.Say(matrixtest.Said{Room: group, From: "@bob:test", Text: "before"})
	own := s.Say(matrixtest.Said{Room: group, From: matrixtest.Bot, Text: "before"})
	begun(t, s, d)
	for _, relation := range []string{"", "m.reference", "m.thread", "m.replace"} { // none of them is a reaction
		content := reacts(own, "👍")
		content["m.relates_to"].(map[string]any)["rel_type"] = relation
		s.Say(matrixtest.Said{Room: group, Type: "m.reaction", Content: content})
	}
	s.Say(matrixtest.Said{Room: group, Type: "m.reaction", Content: reacts(other, "👍")})
	s.Say(matrixtest.Said{Room: group, Type: "m.reaction", Content: reacts("$none", "👍")})
	s.Say(matrixtest.Said{Room: group, Type: "m.reaction", Content: reacts(other, " ")})
	s.Say(matrixtest.Said{Room: group, Text: "the end"})
	until(t, "the end is stored", func() bool { return slices.Contains(d.Texts(), "the end") })
	if got := d.Got(); len(got) != 1 {
		t.Errorf("they came in as %+v", got)
	}
}
