package strictjson_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/corebot/corebot/internal/strictjson"
)

func TestADocumentIsTakenOrRefusedWithWhatIsWrongAndWhere(t *testing.T) {
	const fine = strictjson.What(255)
	half, lax := strictjson.Rules{HalfCharacters: true}, strictjson.Rules{BadUTF8: true, DoubledNames: true}
	for _, c := range []struct {
		data string
		what strictjson.What
		at   int
		half strictjson.What // with half characters allowed
		lax  strictjson.What // with everything allowed
	}{
		{` {"a":[1,{"b":null}],"A":"\ud83d\ude00"} `, fine, 0, fine, fine},
		{`"text"`, fine, 0, fine, fine},
		{``, strictjson.Cut, 0, strictjson.Cut, strictjson.Cut},
		{`{"a":[`, strictjson.Cut, 6, strictjson.Cut, strictjson.Cut},
		{`{"a":1,}`, strictjson.Syntax, 7, strictjson.Syntax, strictjson.Syntax},
		{`{"a":1 "b":2}`, strictjson.Syntax, 7, strictjson.Syntax, strictjson.Syntax},
		{`{"a":01}`, strictjson.Syntax, 6, strictjson.Syntax, strictjson.Syntax},
		{`{"a":"\x"}`, strictjson.Syntax, 5, strictjson.Syntax, strictjson.Syntax},
		{`{1:2}`, strictjson.Syntax, 1, strictjson.Syntax, strictjson.Syntax},
		{`]`, strictjson.Syntax, 0, strictjson.Syntax, strictjson.Syntax},
		{`{} {}`, strictjson.Trailing, 3, strictjson.Trailing, strictjson.Trailing},
		{`{}x`, strictjson.Trailing, 2, strictjson.Trailing, strictjson.Trailing},
		{`{"a":1, "a":2}`, strictjson.Doubled, 8, strictjson.Doubled, fine},
		{`{"a":1,"\u0061":2}`, strictjson.Doubled, 7, strictjson.Doubled, fine},
		{`[{"b":{"a":1,"a":2}}]`, strictjson.Doubled, 13, strictjson.Doubled, fine},
		{`{"a":"\ud800"}`, strictjson.HalfCharacter, 5, fine, fine},
		{`["x", "\udc00\ud800"]`, strictjson.HalfCharacter, 6, fine, fine},
		{`{"\ud800":1,"\udc00":2}`, strictjson.HalfCharacter, 1, strictjson.Doubled, fine},
		{"[\"a\xff\"]", strictjson.Encoding, 3, strictjson.Encoding, fine},
		{"[1]\xff", strictjson.Encoding, 3, strictjson.Encoding, strictjson.Trailing},
		{`[[[[1]]]]`, fine, 0, fine, fine},
		{`[[[[[1]]]]]`, strictjson.Deep, 4, strictjson.Deep, strictjson.Deep},
		{`[{"a":[[{}]]}]`, strictjson.Deep, 8, strictjson.Deep, strictjson.Deep},
		{strings.Repeat("[", 20_000), strictjson.Deep, 4, strictjson.Deep, strictjson.Deep},
	} {
		what := func(rules strictjson.Rules) (strictjson.What, *strictjson.Error) {
			err := strictjson.Check([]byte(c.data), 4, rules)
			bad := (*strictjson.Error)(nil)
			if err == nil {
				return fine, bad
			}
			if !errors.As(err, &bad) || err.Error() == "" || strings.Contains(err.Error(), "jsontext") {
				t.Fatalf("%.40q: got %#v", c.data, err)
			}
			return bad.What, bad
		}
		got, bad := what(strictjson.Rules{})
		if got != c.what || bad != nil && bad.At != c.at {
			t.Errorf("%.40q: got %d, %+v; want %d at %d", c.data, got, bad, c.what, c.at)
		}
		if got, bad := what(half); got != c.half {
			t.Errorf("%.40q, with half characters: got %d, %+v; want %d", c.data, got, bad, c.half)
		}
		if got, bad := what(lax); got != c.lax {
			t.Errorf("%.40q, with everything: got %d, %+v; want %d", c.data, got, bad, c.lax)
		}
	}
}

func TestANameIsReadIntoTheFieldThatIsSpeltLikeIt(t *testing.T) {
	type inner struct {
		Deep string `json:"deep"`
	}
	type base struct {
		Kept int `json:"kept"`
	}
	type outer struct {
		base
		Plain string
		Name  string            `json:"name,omitempty"`
		Skip  string            `json:"-"`
		One   *inner            `json:"one"`
		Many  []inner           `json:"many"`
		Map   map[string]inner  `json:"map"`
		Any   json.RawMessage   `json:"any"`
		When  time.Time         `json:"when"`
		Texts map[string]string `json:"texts"`
	}
	for data, misspelt := range map[string]string{
		`{"kept":1,"Plain":"x","name":"n","one":{"deep":"d"},"many":[{"deep":"d"},null],"map":{"DEEP":{"deep":"d"}},` +
			`"any":{"DEEP":[1]},"when":"2026-12-24T18:00:00Z","texts":{"Name":"x"}}`: "",
		`{"one":null}`:              "",
		`{"NAME":"n"}`:              "NAME",
		`{"plain":"x"}`:             "plain",
		`{"Kept":1}`:                "Kept",
		`{"one":{"Deep":"d"}}`:      "Deep",
		`{"many":[{},{"Deep":""}]}`: "Deep",
		`{"map":{"a":{"deeP":""}}}`: "deeP",
		`{"name":"n","Name":"m"}`:   "Name",
	} {
		var o outer
		err := strictjson.Decode([]byte(data), 4, strictjson.Rules{}, &o)
		bad := (*strictjson.Error)(nil)
		switch {
		case misspelt == "" && err != nil:
			t.Errorf("%s: %v", data, err)
		case misspelt != "" && (!errors.As(err, &bad) || bad.What != strictjson.Misspelt || bad.Name != misspelt):
			t.Errorf("%s: %v; want %s to be misspelt", data, err, misspelt)
		}
	}
	for _, data := range []string{
		`{"name":"a","name":"b"}`, `{"any":[[[[1]]]]}`, `{"other":1}`, `{"name":1}`, `{} {}`, `[]`,
	} {
		if err := strictjson.Decode([]byte(data), 4, strictjson.Rules{}, new(outer)); err == nil {
			t.Errorf("%s is read", data)
		}
	}
}

func TestAMistypedFieldIsToldInPlainWords(t *testing.T) {
	for data, want := range map[string]string{
		`{"wait":true}`:                 "wait must be a whole number, and is true or false",
		`{"wait":"5"}`:                  "wait must be a whole number, and is a string",
		`{"wait":1.5}`:                  "wait must be a whole number, and is 1.5",
		`{"wait":99999999999999999999}`: "wait must be a whole number, and is 99999999999999999999",
		`{"least":-1}`:                  "least must be a whole number of at least 0, and is -1",
		`{"share":[]}`:                  "share must be a number, and is a list",
		`{"text":7}`:                    "text must be a string, and is a number",
		`{"on":"yes"}`:                  "on must be true or false, and is a string",
		`{"list":{}}`:                   "list must be a list, and is an object",
		`{"inner":"x"}`:                 "inner must be an object, and is a string",
		`{"inner":{"text":1}}`:          "inner.text must be a string, and is a number",
		`{"all":{"a":1}}`:               "all must be a string, and is a number",
		`{"at":"noon"}`:                 `a moment is written as 2026-12-24T18:00:00Z, and not as "noon"`,
		`{"at":7}`:                      "a moment",
		`{"other":1}`:                   `there is no field "other"`,
		`[]`:                            "it must be an object, and is a list",
		`7`:                             "it must be an object, and is a number",
	} {
		var into struct {
			Wait  int               `json:"wait"`
			Least uint              `json:"least"`
			Share float64           `json:"share"`
			Text  string            `json:"text"`
			On    bool              `json:"on"`
			List  []string          `json:"list"`
			All   map[string]string `json:"all"`
			At    time.Time         `json:"at"`
			Inner struct {
				Text string `json:"text"`
			} `json:"inner"`
		}
		err := strictjson.Decode([]byte(data), 4, strictjson.Rules{}, &into)
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "json:") {
			t.Errorf("%s: %v; want %q", data, err, want)
		}
	}
}

func TestANameFromOutsideIsShownShortAndOnOneLine(t *testing.T) {
	name := "a\n\u202e" + strings.Repeat("n", 500)
	twice, err := json.Marshal(name)
	if err != nil {
		t.Fatal(err)
	}
	err = strictjson.Check([]byte("{"+string(twice)+":1,"+string(twice)+":2}"), 4, strictjson.Rules{})
	var bad *strictjson.Error
	if !errors.As(err, &bad) || bad.Name != name || len(err.Error()) > 120 ||
		strings.ContainsAny(err.Error(), "\n\u202e") {
		t.Errorf("got %v", err)
	}
}

func TestADocumentIsWrittenAgainWithItsTextsEdited(t *testing.T) {
	edit := strictjson.Edit{
		Name: func(name string) (string, error) { return strings.TrimSuffix(name, "!"), nil },
		Text: func(member, text string) (string, error) { return member + "=" + text, nil },
		Hide: func(member string, value strictjson.Kind) (string, bool) {
			return "hidden", member == "key" && value != 't'
		},
	}
	for in, want := range map[string]string{
		` { "b" : 1.50 , "a!" : [ "x" , { "c" : "<&>\u2028" } , "y" ] , "d" : null } `: `{"b":1.50,"a":["=x",` +
			`{"c":"c=<&>\u2028"},"=y"],"d":null}`,

		`{"key":{"deep":[1,{"key":2}]},"then":"t"}`: `{"key":"hidden","then":"then=t"}`,
		`[{"key":1e2},"key"]`:                       `[{"key":"hidden"},"=key"]`,
		`"text"`:                                    `"=text"`,
		`-0.0e1`:                                    `-0.0e1`,
		`{"a":1,"a!":2}`:                            "",
		`{"a":1,"a":2}`:                             "",
		`{"key":[1}`:                                "",
		`{"key":[{"a":1,"a":2}]}`:                   "",
		`{} []`:                                     "",
		`]`:                                         "",
	} {
		got, err := strictjson.Rewrite([]byte(in), strictjson.Rules{}, edit)
		if (err != nil) != (want == "") || err == nil && string(got) != want {
			t.Errorf("%s became %s, %v; want %s", in, got, err, want)
		}
	}
	stop := errors.New("stop")
	edit.Text = func(string, string) (string, error) { return "", stop }
	if _, err := strictjson.Rewrite([]byte(`["a"]`), strictjson.Rules{}, edit); !errors.Is(err, stop) {
		t.Errorf("got %v", err)
	}
}

// FuzzRead holds the reader to encoding/json: what one takes by the strictest rules, the other reads to the same value,
// and what is written again is that value.
func FuzzRead(f *testing.F) {
	for _, s := range []string{
		`{"a":[1,{"b":null}],"c":"\ud83d\ude00"}`, `{"a":1,"\u0061":2}`, `"\ud800"`, "\"\xff\"",
		`[1,]`, `1 2`, `{"a":1e999,"b":-0}`, strings.Repeat("[", 50),
	} {
		f.Add([]byte(s))
	}
	same := func(s string) (string, error) { return s, nil }
	edit := strictjson.Edit{Name: same, Text: func(_, s string) (string, error) { return same(s) }}
	f.Fuzz(func(t *testing.T, data []byte) {
		before := string(data)
		strict := strictjson.Check(data, 32, strictjson.Rules{})
		again, err := strictjson.Rewrite(data, strictjson.Rules{}, edit)
		_, lax := strictjson.Rewrite(data, strictjson.Rules{BadUTF8: true, DoubledNames: true}, edit)
		switch {
		case string(data) != before:
			t.Fatal("reading changes the data")
		case strict == nil && (err != nil || !json.Valid(data) || !utf8.Valid(data)):
			t.Fatalf("taken: %v", err)
		case (lax == nil) != json.Valid(data):
			t.Fatalf("with every rule lifted: %v", lax)
		case strict != nil:
			return
		}
		if want := compact(t, data); string(compact(t, again)) != string(want) {
			t.Fatalf("written again it is %s, want %s", again, want)
		}
	})
}

// compact is what encoding/json reads, written by it.
func compact(t *testing.T, data []byte) []byte {
	d := json.NewDecoder(strings.NewReader(string(data)))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		t.Fatal(err)
	}
	out, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func TestAMistakeIsToldByItsPlaceInPlainWords(t *testing.T) {
	for text, want := range map[string]string{
		"":                      "1:1 the file is empty",
		"{\n \"é\": {\n":        "3:1 the file ends in the middle",
		"{\"é\": 1,}":           "1:9 a comma before the closing }",
		"[1,\n 2,\n]":           "3:1 a comma before the closing ]",
		`{"a" "x"}`:             "1:6 a colon is missing",
		`{"a": 1 "b": 2}`:       "1:9 a comma or a } is missing",
		`[1 2]`:                 "1:4 a comma or a ] is missing",
		`{'a': 1}`:              "1:2 single quotes",
		"{\n// c\n}":            "2:1 a comment",
		"{\"a\": 1, # c\n}":     "1:10 a comment",
		`{"a": 1} x`:            "1:10 something follows",
		`{"a": tru}`:            "1:7 neither true nor false nor null",
		`{"a": "\q"}`:           "1:7 a backslash",
		"{\"a\": \"x\ny\"}":     "1:7 a line break",
		"{a: 1}":                "1:2 nothing in JSON begins with 'a'",
		"{\"a\": hello}":        "1:7 nothing in JSON begins with 'h'",
		"\xef\xbb\xbf{}":        "1:1 a byte order mark",
		"{\"a\": \"\xff\"}":     "1:8 bytes that are not UTF-8",
		`{"a": 1, "a": 2}`:      "1:10 the name \"a\" stands there twice",
		strings.Repeat("[", 11): "1:11 it is nested deeper than 10",
	} {
		err := strictjson.Check([]byte(text), 10, strictjson.Rules{})
		var bad *strictjson.Error
		if !errors.As(err, &bad) {
			t.Errorf("%q: %v", text, err)
			continue
		}
		line, column := strictjson.Place([]byte(text), bad.At)
		got := fmt.Sprintf("%d:%d %s", line, column, bad.Words([]byte(text)))
		if !strings.HasPrefix(got, want) {
			t.Errorf("%q is told as %q (%v), want %q", text, got, err, want)
		}
	}
}
