package redact

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
)

func nested(n int) string {
	return strings.Repeat(`{"a\"]":[`, n/2) + "1" + strings.Repeat("]}", n/2)
}

func TestWhatIsDeeperThanReadersOfJSONGoIsText(t *testing.T) {
	for n, same := range map[int]bool{0: true, 2: true, MaxDepth: true, MaxDepth + 2: false, 2_002: false} {
		text := nested(n)
		got := Shallow(json.RawMessage(text))
		var s string
		if (string(got) == text) != same || !same && (json.Unmarshal(got, &s) != nil || s != text) {
			t.Errorf("%d levels: %.80s", n, got)
		}
		line := fmt.Sprintf(`{"id":1,"args":%s,"more":[%s,2]}`, text, text)
		flat := Flat([]byte(line))
		if !json.Valid(flat) || depth(string(flat)) > MaxDepth || n < MaxDepth-2 && string(flat) != line {
			t.Errorf("%d levels in a line: %.200s", n, flat)
		}
	}
}

func TestArgumentsThatAreTooDeepAreKeptAsTextWithoutTheirSecrets(t *testing.T) {
	r, err := New(nil)
	if err != nil {
		t.Fatal(err)
	}
	deep := `{"password":"hunter22","in":` + nested(2_002) + `}`
	kept := r.Args([]byte(deep), 100_000)
	var text string
	if err := json.Unmarshal([]byte(kept), &text); err != nil || strings.Contains(text, "hunter22") ||
		!strings.Contains(text, `{"password":"`+Mark) {
		t.Errorf("kept %.200s: %v", kept, err)
	}
	if kept := r.Args([]byte(nested(MaxDepth)), 100_000); kept != nested(MaxDepth) {
		t.Errorf("%d levels are kept as %.200s", MaxDepth, kept)
	}
}

func FuzzWhatIsFlatIsJSONThatEverybodyReads(f *testing.F) {
	f.Add([]byte(nested(200)))
	f.Add([]byte(`[[],{},"[\\\"]"]`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		if !json.Valid(raw) {
			return
		}
		if flat := Flat(raw); !json.Valid(flat) || depth(string(flat)) > MaxDepth {
			t.Errorf("%q became %q", raw, flat)
		}
	})
}
