package redact_test

import (
	"encoding/json"
	"errors"
	"io"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/internal/redact"
)

func newRedactor(t testing.TB, secrets ...string) *redact.Redactor {
	t.Helper()
	r, err := redact.New(secrets)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestExactSecretsAreRedactedTheLongerFirst(t *testing.T) {
	r := newRedactor(t, "hunter2hunter2", "", "hunter2hunter2-long")
	if got, want := r.Text("a hunter2hunter2-long b hunter2hunter2."), "a [redacted] b [redacted]."; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestAShortSecretIsRefusedWithoutSpellingIt(t *testing.T) {
	_, err := redact.New([]string{"longenough", "pw7"})
	if !errors.Is(err, corebot.ErrInvalid) || strings.Contains(err.Error(), "pw7") {
		t.Errorf("got %v", err)
	}
}

// join keeps the samples from looking like secrets to a scanner of this source.
func join(parts ...string) string { return strings.Join(parts, "") }

func TestKnownShapesAreRedacted(t *testing.T) {
	r := newRedactor(t)
	body := strings.Repeat("Ab3", 13)
	for _, secret := range []string{
		join("sk-", body), join("sk-proj-", body), join("ghp_", body), join("github_pat_", body), join("glpat-", body),
		join("AKIA", "ABCDEFGHIJKLMNOP"), join("AIza", body[:35]), join("xoxb-", "123456789012-abc"),
		join("whsec_", body),
		join("sk_live_", body), join("npm_", body), join("hf_", body), join("123456789:", body[:35]),
		join("eyJ", "hbGciOiJI.", "eyJzdWIiOiI.", "sig_na-ture"),
		join("-----BEGIN RSA PRIVATE KEY-----\n", body, "\n", body, "==\n-----END RSA PRIVATE KEY-----"),
		join("-----BEGIN PRIVATE KEY-----\n", body),
	} {
		if got := r.Text("see " + secret + "\n"); strings.Contains(got, secret[len(secret)-8:]) ||
			!strings.HasPrefix(got, "see [redacted]") {
			t.Errorf("%q became %q", secret, got)
		}
	}
	for in, want := range map[string]string{
		"Authorization: Bearer abcdefghijklmnop1": "Authorization: Bearer [redacted]",
		"authorization: basic dXNlcjpwYXNz":       "authorization: basic [redacted]",
		"https://bob:pa55@example.org/x":          "https://bob:[redacted]@example.org/x",
	} {
		if got := r.Text(in); got != want {
			t.Errorf("%q became %q, want %q", in, got, want)
		}
	}
}

func TestOrdinaryTextStaysAsItIs(t *testing.T) {
	r := newRedactor(t)
	for _, s := range []string{
		"a basic understanding of bearer authentication", "http://localhost:8080/a@b", "task-force sk-ip",
		"key: C major", "12:30:45", "eyJ is a prefix",
		"-----BEGIN CERTIFICATE-----\nabc\n-----END CERTIFICATE-----",
	} {
		if got := r.Text(s); got != s {
			t.Errorf("%q became %q", s, got)
		}
	}
}

func TestSensitiveGoesByWholeWords(t *testing.T) {
	for _, s := range []string{
		"key", "apiKey", "APIKey", "x-api-key", "bootstrapKey", "access_token", "Authorization", "db.password", "key2",
		"clientSECRET", "Set-Cookie",
		"auth", "apikey", "bearer", "cookies", "credential", "credentials", "jwt", "keys", "otp", "passphrase",
		"passwd", "passwords", "pin", "privatekey", "pwd", "secrets", "tokens",
	} {
		if !redact.Sensitive(s) {
			t.Errorf("%q is taken for harmless", s)
		}
	}
	for _, s := range []string{"monkey", "keyboard", "path", "content", "tokenizer", "author", "", "secretary"} {
		if redact.Sensitive(s) {
			t.Errorf("%q is taken for a secret", s)
		}
	}
}

func TestArgumentsKeepTheirShapeWithoutTheirSecrets(t *testing.T) {
	r := newRedactor(t, "hunter2hunter2")
	for in, want := range map[string]string{
		`{"path": "a", "n": 1.50, "ok": true, "none": null, "list": [1, {"b": []}], "o": {}}`: `{"path":"a",` +
			`"n":1.50,"ok":true,"none":null,"list":[1,{"b":[]}],"o":{}}`,

		`{"token":true,"key":null,"secret":false,"pin":7}`: `{"token":true,"key":null,"secret":false,` +
			`"pin":"[redacted]"}`,

		`{"bootstrapKey":"x","z":1,"a":2}`:               `{"bootstrapKey":"[redacted]","z":1,"a":2}`,
		`{"token":{"deep":["x",{"y":1}]},"after":[1,2]}`: `{"token":"[redacted]","after":[1,2]}`,
		`{"password":12345,"password":[]}`:               `{"password":"[redacted]","password":"[redacted]"}`,
		`{"content":"say hunter2hunter2 <b>"}`:           `{"content":"say [redacted] <b>"}`,
		`{"list":[{"secret":"x"},"y"],"k":"v"}`:          `{"list":[{"secret":"[redacted]"},"y"],"k":"v"}`,
		`"hunter2hunter2"`:                               `"[redacted]"`,
		`{"hunter2hunter2":"x"}`:                         `{"[redacted]":"x"}`,
		`{"password":"pa55" "broken`:                     `"{\"password\":\"[redacted]\" \"broken"`,
		`token=abc123`:                                   `"token=\"[redacted]\""`,
		`{} {}`:                                          `"{} {}"`,
		``:                                               `""`,
	} {
		if got := r.Args([]byte(in), 1000); got != want {
			t.Errorf("%s\n got %s\nwant %s", in, got, want)
		}
	}
}

func TestLongArgumentsAreCutToAString(t *testing.T) {
	r := newRedactor(t)
	got := r.Args([]byte(`{"content":"`+strings.Repeat("é", 100)+`"}`), 50)
	var s string
	if err := json.Unmarshal([]byte(got), &s); err != nil || len(s) > 50+len("…") ||
		!strings.HasPrefix(s, `{"content":"éé`) || !strings.HasSuffix(s, "é…") {
		t.Errorf("got %s, %v", got, err)
	}
}

func TestArgumentsThatAreNestedTooDeeplyAreText(t *testing.T) {
	nested := func(n int) string {
		return strings.Repeat(`{"a":[`, n) + `{"token":"hunter2-hunter2"},"]}\"]}"` + strings.Repeat(`]}`, n)
	}
	r := newRedactor(t)
	for n, isText := range map[int]bool{
		1: false, (redact.MaxDepth - 1) / 2: false, redact.MaxDepth / 2: true,
		1000: true, 6000: true,
	} {
		got := r.Args([]byte(nested(n)), 1<<20)
		if strings.HasPrefix(got, `"`) != isText || !json.Valid([]byte(got)) || strings.Contains(got, "hunter2") {
			t.Errorf("%d levels: %.200s", 2*n+1, got)
		}
		if got := redact.Shallow([]byte(nested(n))); strings.HasPrefix(string(got), `"`) != isText || !json.Valid(got) {
			t.Errorf("%d levels, shown: %.200s", 2*n+1, got)
		}
	}
}

func TestInvisibleCharactersAreStripped(t *testing.T) {
	in := "a\u200bb\u202ec\u2066d\x1b[31m\x00e\U000E0041f\ufe01g\u00adh\u3164i\u0085j\xffk\tl\r\nm❤\ufe0f é"
	if got, want := redact.Visible(in), "abcd[31mefghij\ufffdk\tl\r\nm❤\ufe0f é"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestOfAHeaderTheWholeAndItsCredentialsAreSecret(t *testing.T) {
	for value, want := range map[string]string{
		"": "", "short": "", "Bearer x": "Bearer x", "hunter2hunter2": "hunter2hunter2",
		"Basic hunter2hunter2": "Basic hunter2hunter2|hunter2hunter2",
	} {
		if got := strings.Join(redact.OfHeader(value), "|"); got != want {
			t.Errorf("of %q: %q, want %q", value, got, want)
		}
	}
}

func TestHostileTextTakesLinearTime(t *testing.T) {
	r := newRedactor(t, strings.Repeat("a", 63)+"b")
	for _, unit := range []string{
		"a", "-----BEGIN PRIVATE KEY-----", "://a:", "eyJaaaaaaaa.", "bearer ", "sk-", "ghp_",
		"ghp_ ", "a_live_ ", `{"key":`,
	} {
		start := time.Now()
		r.Args([]byte(strings.Repeat(unit, 80_000/len(unit))), 1000)
		if d := time.Since(start); d > 10*time.Second { // what looks again from each unit on takes half a minute
			t.Errorf("80 kB of %q took %v", unit, d)
		}
	}
}

func FuzzArgsAreAlwaysStorableJSON(f *testing.F) {
	for _, s := range []string{
		`{"a":[1,{"key":{"x":1}}]}`, `{"key":`, `[[[`, "\xff", `{"a":1}{`, `]`,
		`{"key":"hunter2hunter2"}`, `"\ud800"`,
	} {
		f.Add(s, 40)
	}
	r := newRedactor(f, "hunter2hunter2")
	f.Fuzz(func(t *testing.T, in string, limit int) {
		got := r.Args([]byte(in), limit)
		if !json.Valid([]byte(got)) || !utf8.ValidString(got) {
			t.Errorf("Args(%q) = %q", in, got)
		}
		if strings.Contains(got, "hunter2hunter2") {
			t.Errorf("Args(%q) = %q still has the secret", in, got)
		}
	})
}

func FuzzTextHasNoExactSecret(f *testing.F) {
	f.Add("a hunter2hunter2 b")
	f.Add("hunter2hunter2hunter2")
	r := newRedactor(f, "hunter2hunter2")
	f.Fuzz(func(t *testing.T, in string) {
		if got := r.Text(in); strings.Contains(got, "hunter2hunter2") {
			t.Errorf("Text(%q) = %q", in, got)
		}
		if got := redact.Visible(in); redact.Visible(got) != got || !utf8.ValidString(got) {
			t.Errorf("Visible(%q) = %q is not stable", in, got)
		}
	})
}

func TestALearntSecretIsHiddenAsItIsAndAsJSONWritesIt(t *testing.T) {
	r, err := redact.New([]string{"first-secret"})
	if err != nil {
		t.Fatal(err)
	}
	odd := `pass"word\with<odd>` + "\tletters"
	if err := r.Learn([]string{odd, ""}); err != nil {
		t.Fatal(err)
	}
	line, err := json.Marshal(map[string]string{"a": "first-secret", "b": "x"})
	if err != nil {
		t.Fatal(err)
	}
	var quoted strings.Builder
	e := json.NewEncoder(&quoted)
	e.SetEscapeHTML(false)
	if err := e.Encode(odd); err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{string(line), "say " + odd + "!", quoted.String()} {
		if got := r.Text(text); strings.Contains(got, "first-secret") || strings.Contains(got, "word") ||
			!strings.Contains(got, redact.Mark) {
			t.Errorf("%q became %q", text, got)
		}
	}
	if err := r.Learn([]string{"short", "another-secret"}); !errors.Is(err, corebot.ErrInvalid) ||
		r.Text("another-secret") != "another-secret" {
		t.Errorf("a short one: %v", err)
	}
}

func TestAWriterHidesAndTakesAll(t *testing.T) {
	r, err := redact.New([]string{"first-secret"})
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	const text = "it is first-secret, Bearer abcdefghijklmnopqrstuv"
	if n, err := io.WriteString(r.Writer(&out), text); n != len(text) || err != nil ||
		out.String() != "it is [redacted], Bearer [redacted]" {
		t.Errorf("%d, %v, %q", n, err, out.String())
	}
	broken := errors.New("broken")
	if n, err := io.WriteString(r.Writer(writerFunc(func([]byte) (int, error) { return 0, broken })), text); n != 0 ||
		!errors.Is(err, broken) {
		t.Errorf("%d, %v", n, err)
	}
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }

func TestASecretIsKnownAsPagesSpellIt(t *testing.T) {
	r, err := redact.New([]string{"k3y+with&chars<9>abcdefgh"})
	if err != nil {
		t.Fatal(err)
	}
	for _, page := range []string{
		"k3y+with&chars<9>abcdefgh", "k3y+with&amp;chars&lt;9&gt;abcdefgh", "k3y&#43;with&amp;chars&lt;9&gt;abcdefgh",
		"k3y%2Bwith%26chars%3C9%3Eabcdefgh", "k3y%2bwith%26chars%3c9%3eabcdefgh",
	} {
		if got := r.Text("a " + page + " b"); got != "a "+redact.Mark+" b" {
			t.Errorf("%s becomes %s", page, got)
		}
	}
}
