package corebot_test

import (
	"strings"
	"testing"
	"unicode"

	"github.com/corebot/corebot"
)

func TestACommandIsTheFirstWordWhateverFollowsIt(t *testing.T) {
	for text, want := range map[string]corebot.Command{
		"/stop":         {Name: "/stop"},
		"  /STOP\tnow ": {Name: "/stop", Args: "now"},
		"/new\nplease":  {Name: "/new", Args: "please"},
		"/steer //stop": {Name: "/steer", Args: "/stop"},
	} {
		if got, _, ok := corebot.ParseCommand(text); !ok || got != want {
			t.Errorf("%q is %+v, %v", text, got, ok)
		}
	}
	for _, text := range []string{"", "stop", "/stopping", "/tool fs.list {}", "say /stop", "/"} {
		if got, kind, ok := corebot.ParseCommand(text); ok || kind != corebot.KindPrompt {
			t.Errorf("%q is taken for %+v", text, got)
		}
	}
}

func TestEveryTextIsReadByOneRule(t *testing.T) {
	for text, want := range map[string]corebot.Spoken{
		"hello":                   {Kind: corebot.KindPrompt, Text: "hello"},
		"/STOP now":               {Kind: corebot.KindControl, Text: "/STOP now"},
		"/new":                    {Kind: corebot.KindCommand, Text: "/new"},
		"/new \t\n":               {Kind: corebot.KindCommand, Text: "/new \t\n"},
		" /New\nplan my week\n":   {Kind: corebot.KindOpening, Text: "plan my week"},
		"/reset /stop":            {Kind: corebot.KindOpening, Text: "/stop"},
		"/sto":                    {Kind: corebot.KindControl, Text: "/sto"},
		"/stop! at once":          {Kind: corebot.KindControl, Text: "/stop! at once"},
		"/élan":                   {Kind: corebot.KindControl, Text: "/élan"},
		"/tool fs.list {}":        {Kind: corebot.KindPrompt, Text: "/tool fs.list {}"},
		"/TOOL x":                 {Kind: corebot.KindPrompt, Text: "/TOOL x"},
		"/":                       {Kind: corebot.KindPrompt, Text: "/"},
		"/ stop":                  {Kind: corebot.KindPrompt, Text: "/ stop"},
		"/2 is a half":            {Kind: corebot.KindPrompt, Text: "/2 is a half"},
		"/tmp/file is full, why?": {Kind: corebot.KindPrompt, Text: "/tmp/file is full, why?"},
		"/tmp/":                   {Kind: corebot.KindPrompt, Text: "/tmp/"},
		"/new //stop":             {Kind: corebot.KindOpening, Text: "/stop"},
		"/reset  ///x":            {Kind: corebot.KindOpening, Text: "//x"},
		"/new // a comment":       {Kind: corebot.KindOpening, Text: "// a comment"},
		"/new /stop":              {Kind: corebot.KindOpening, Text: "/stop"},
		"//stop":                  {Kind: corebot.KindPrompt, Text: "/stop"},
		" //x y":                  {Kind: corebot.KindPrompt, Text: "/x y"},
		"///x":                    {Kind: corebot.KindPrompt, Text: "//x"},
		"//":                      {Kind: corebot.KindPrompt, Text: "//"},
		"// a comment":            {Kind: corebot.KindPrompt, Text: "// a comment"},
		"//server/share":          {Kind: corebot.KindPrompt, Text: "//server/share"},
		"//tool fs.list":          {Kind: corebot.KindPrompt, Text: "/tool fs.list"},
		"say /stop":               {Kind: corebot.KindPrompt, Text: "say /stop"},
	} {
		if got := corebot.Read(text); got != want {
			t.Errorf("%q is %+v, want %+v", text, got, want)
		}
	}
}

func FuzzEveryTextCanBeSaid(f *testing.F) {
	for _, s := range []string{"/stop", "//stop", "/ ", "//", "///x", "/tmp/x", "/new x", " /x", "/tool x"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if got := corebot.Read(text); got.Kind == corebot.KindPrompt && got.Text == text {
			return
		}
		trimmed := strings.TrimLeftFunc(text, unicode.IsSpace)
		if got := corebot.Read("/" + trimmed); got.Kind != corebot.KindPrompt || got.Text != trimmed {
			t.Errorf("%q cannot be said: /%q is %+v", trimmed, trimmed, got)
		}
	})
}
