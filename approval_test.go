package corebot_test

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"
	"unicode"

	"github.com/corebot/corebot"
)

func bound(t testing.TB, tool, args, dir string, files ...corebot.NamedFile) corebot.Bound {
	t.Helper()
	b, err := corebot.NewBound(corebot.ToolCall{ID: "c", Tool: tool, Args: json.RawMessage(args)}, dir, files)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestAnApprovalIsBoundToEachPartOfACall(t *testing.T) {
	script, other := corebot.NamedFile{Path: "a.sh", Content: "sha256:00"},
		corebot.NamedFile{Path: "b", Content: corebot.NoFile}
	approved := bound(t, "shell.exec", `{"argv":["sh","a.sh"]}`, "chats/x", script, other)
	place := corebot.NamedFile{Path: "chats/x", Content: "1 file, sha256:00"}
	approved.Files = append(approved.Files, place)
	more := corebot.NamedFile{Path: "chats/x", Content: "2 files, sha256:01"}
	changed, gone, made := script, script, other
	changed.Content, gone.Content, made.Content = "sha256:01", corebot.NoFile, "sha256:00"
	for drift, now := range map[string]corebot.Bound{
		"the tool is another": bound(t, "shell.exe", `{"argv":["sh","a.sh"]}`, "chats/x",
			script, other, place),
		"the call is another": bound(t, "shell.exec", `{"argv":["sh","-x","a.sh"]}`, "chats/x",
			script, other, place),
		"the working directory is another": bound(t, "shell.exec", `{"argv":["sh","a.sh"]}`, "chats/y",
			script, other, place),
		"a.sh has changed": bound(t, "shell.exec", `{"argv":["sh","a.sh"]}`, "chats/x",
			changed, other, more),
		"b has changed": bound(t, "shell.exec", `{"argv":["sh","a.sh"]}`, "chats/x",
			script, made, more),
		"a file that the call names has come or gone": bound(t, "shell.exec", `{"argv":["sh","a.sh"]}`, "chats/x",
			script, other, place, corebot.NamedFile{Path: "c", Content: "sha256:00"}),
		"what is in the directory chats/x has changed": bound(t, "shell.exec", `{"argv":["sh","a.sh"]}`, "chats/x",
			script, other, more),
	} {
		if got := approved.Drift(now); got != drift {
			t.Errorf("got %q, want %q", got, drift)
		}
	}
	for name, now := range map[string]corebot.Bound{
		"a file that is gone":   bound(t, "shell.exec", `{"argv":["sh","a.sh"]}`, "chats/x", gone, other, place),
		"one that is not named": bound(t, "shell.exec", `{"argv":["sh","a.sh"]}`, "chats/x", script, place),
		"one more": bound(t, "shell.exec", `{"argv":["sh","a.sh"]}`, "chats/x", script, other, place,
			corebot.NamedFile{Path: "c"}),
		"parts that run together": bound(t, "shell.exec", `{"argv":["sh","a.sh"]}`, "chats/xa.shsha256:00", other,
			place),
		"another order in objects": bound(t, "shell.exec", `{"a":1,"argv":["sh","a.sh"]}`, "chats/x", script, other,
			place),
	} {
		if approved.Drift(now) == "" {
			t.Errorf("%s is taken for the same call", name)
		}
	}
}

func TestAnApprovalHoldsForArgumentsAsTheJournalSpellsThem(t *testing.T) {
	call := corebot.ToolCall{
		ID: "c", Tool: "fs.write",
		Args: json.RawMessage("{ \"path\":\"a\",\n\t\"content\":\"<b> & \u2028\" }"),
	}
	stored, err := json.Marshal(call)
	if err != nil {
		t.Fatal(err)
	}
	var journaled corebot.ToolCall
	if err := json.Unmarshal(stored, &journaled); err != nil {
		t.Fatal(err)
	}
	if string(journaled.Args) == string(call.Args) {
		t.Fatal("the journal spells them the same: the test proves nothing")
	}
	if drift := bound(t, call.Tool, string(call.Args), "").Drift(bound(t, call.Tool, string(journaled.Args),
		"")); drift != "" {
		t.Errorf("from its journal %s", drift)
	}
}

func TestArgumentsThatAreNotJSONCannotBeApproved(t *testing.T) {
	if _, err := corebot.NewBound(corebot.ToolCall{Tool: "x", Args: json.RawMessage(`{"a"`)}, "", nil); err == nil {
		t.Error("they were bound")
	}
}

// FuzzWhatIsShownIsWhatRuns checks that the shown arguments mean the same, and have nothing that a person does not see.
func FuzzWhatIsShownIsWhatRuns(f *testing.F) {
	for _, s := range []string{
		"rm -rf /", "a\u202eb\u200b", "\u0000\x7f\u00a0", "\U000e0041\U0001f600\ufe0f",
		"\u3164 <script>&", `\u200b`,
	} {
		args, _ := json.Marshal(map[string]string{"text": s})
		f.Add(string(args))
	}
	f.Fuzz(func(t *testing.T, args string) {
		b, err := corebot.NewBound(corebot.ToolCall{Tool: "x", Args: json.RawMessage(args)}, "", nil)
		if err != nil {
			return
		}
		_, shown, found := strings.Cut(b.String(), "\narguments: ")
		if !found || strings.ContainsFunc(shown, func(r rune) bool { return !unicode.IsPrint(r) }) {
			t.Fatalf("%q is shown as %q", args, shown)
		}
		var meant, seen any
		if err := json.Unmarshal([]byte(args), &meant); err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal([]byte(shown), &seen); err != nil || !reflect.DeepEqual(meant, seen) {
			t.Fatalf("%q is shown as %q: %v", args, shown, err)
		}
	})
}

func FuzzParseApprovalID(f *testing.F) {
	for _, s := range []string{"1", "#7", "0", "-1", "", "##1", "9223372036854775808", " 1"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if id, err := corebot.ParseApprovalID(s); (err == nil) != (id > 0) {
			t.Errorf("%q: %d, %v", s, id, err)
		}
	})
}
