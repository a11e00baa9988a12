package openai

import (
	"strings"
	"testing"

	"github.com/corebot/corebot"
)

func withoutThinking(pieces ...string) string {
	var f thinkFilter
	var text strings.Builder
	for _, p := range pieces {
		text.WriteString(f.take(p))
	}
	return text.String() + f.rest()
}

func TestThinkingAtTheBeginningIsNotText(t *testing.T) {
	for stream, want := range map[string]string{
		"":                                   "",
		"plain":                              "plain",
		"<think>hm</think>\n\nyes":           "yes",
		" \n<think></think>yes":              "yes",
		"<think>a < b </thin> c</think>yes ": "yes ",
		"<think>never ends":                  "",
		"<thin":                              "<thin",
		"<thinking>is another word":          "<thinking>is another word",
		"so <think>no</think>":               "so <think>no</think>",
		"<think>a</think><think>b</think>":   "<think>b</think>",
		"  indented":                         "  indented",
	} {
		if got := withoutThinking(stream); got != want {
			t.Errorf("%q: text %q, want %q", stream, got, want)
		}
	}
}

func FuzzThinkingIsTakenOffHoweverTheStreamIsCut(f *testing.F) {
	f.Add("<think>hm</think> yes", 3, 9)
	f.Add(" <thi", 1, 2)
	f.Add("<think>x</think", 8, 15)
	f.Fuzz(func(t *testing.T, stream string, i, j int) {
		i, j = min(max(0, i), len(stream)), min(max(0, j), len(stream))
		i, j = min(i, j), max(i, j)
		whole, cut := withoutThinking(stream), withoutThinking(stream[:i], stream[i:j], stream[j:])
		if whole != cut || !strings.HasSuffix(stream, whole) {
			t.Fatalf("%q is %q, and cut at %d and %d %q", stream, whole, i, j, cut)
		}
	})
}

func TestThinkingGoesBackOnlyToTheModelThatThought(t *testing.T) {
	sealed := seal("m", "hm")
	for model, want := range map[string]string{"m": "hm", "n": ""} {
		if got := unseal(model, sealed); got != want {
			t.Errorf("%s gets %q, want %q", model, got, want)
		}
	}
	if seal("m", "") != nil || unseal("m", nil) != "" || unseal("m",
		&corebot.Opaque{Source: "openai:m", Data: []byte("{")}) != "" {
		t.Error("something out of nothing")
	}
}
