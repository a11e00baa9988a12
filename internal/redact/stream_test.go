package redact

import (
	"math/rand/v2"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/corebot/corebot/internal/long"
)

// exacts are secrets of settings, with all that makes a cut of a text hard: spaces, slashes, quotes, beginnings of one
// another, and bytes that are no text.
var exacts = []string{
	"hunter2hunter2", "12345678", "78zzzzzzzz", "hunter2hunter2-longer", "pa/ss/wo/rd", "two words of it",
	"_under_score",
	"bearer of the ring", `quo"te's:a@b`, "pass\nphrase\nof lines", "пароль-и-ключ", "\xff\xfebytes\xff", "aaaaaaaaab",
	"https://in.example/hook", "sk-halfway-between-two", "[redacted]x",
}

// glue are the pieces that random texts are made of beside secrets.
var glue = []string{
	" ", "\n", "\t", "a", "s", "sk-", "task-", "_", ":", "/", "://", "@", "'", `"`, ".", ",", "世界", "é", "\xff",
	"0123456789",
	"bearer ", "Bearer", "bEaReR ", "BEARER\t", "authorization", ": basic ", "=Token ", "-----BEGIN ",
	"RSA PRIVATE KEY-----",
	"-----END", "http://bob:", "@host", "hooks.slack.com/services/", "T0001B0001", ".atlasv1.", "AKIA",
	"ABCDEFGHIJKLMNOP",
	"eyJhbGciOiJI.", "word ", "the quick ", "\u017f", "\u212a", "[redacted]", "}", "123456789:A", "SG.", "\v", "\u00a0",
}

func streamed(r *Redactor, pieces []string) (given []string) {
	s := r.Stream()
	for _, p := range pieces {
		given = append(given, s.Add(p))
	}
	return append(given, s.End())
}

// texts are random texts with secrets, and texts of halves of secrets.
func randomText(random *rand.Rand) string {
	secrets := append([]string{}, exacts...)
	for id, sample := range samples() {
		before, after := around(id)
		secrets = append(secrets, before+written(sample[0])+after, written(sample[1]))
	}
	var b strings.Builder
	for range 1 + random.IntN(12) {
		secret := secrets[random.IntN(len(secrets))]
		switch random.IntN(6) {
		case 0:
			b.WriteString(secret)
		case 1:
			b.WriteString(secret[:random.IntN(len(secret)+1)])
		case 2:
			b.WriteString(secret[random.IntN(len(secret)+1):])
		default:
			b.WriteString(glue[random.IntN(len(glue))])
		}
	}
	return b.String()
}

func cutAtRandom(random *rand.Rand, text string) (pieces []string) {
	longest := 1 + random.IntN(20)
	for len(text) > 0 {
		n := min(len(text), random.IntN(longest+1))
		pieces, text = append(pieces, text[:n]), text[n:]
	}
	return pieces
}

func checkStream(t *testing.T, r *Redactor, text string, pieces []string) {
	t.Helper()
	want, sum := r.Text(text), ""
	for _, given := range streamed(r, pieces) {
		if sum += given; !strings.HasPrefix(want, sum) {
			break
		}
		if utf8.ValidString(text) && !utf8.ValidString(given) {
			t.Fatalf("%q\n in %q\n shows half a character: %q", text, pieces, given)
		}
	}
	if sum != want {
		t.Fatalf("%q\n in %q\n shows %q\n  want %q", text, pieces, sum, want)
	}
}

// A stream shows at any time the beginning of what the redaction of the whole text shows.
func TestAStreamShowsWhatTheWholeTextShowsHoweverItIsCut(t *testing.T) {
	t.Parallel()
	r, err := New(exacts)
	if err != nil {
		t.Fatal(err)
	}
	random := rand.New(rand.NewPCG(1, 2)) // FuzzStream goes on for as long as one wants
	for range long.Or(100, 800) {
		text := randomText(random)
		checkStream(t, r, text, cutAtRandom(random, text))
	}
	for _, text := range []string{
		"hunter2hunter2Bearer abcdefghijklmnop1 is behind a mark", "sk-" + strings.Repeat("a", 20) + " 世界",
		"desk-halfway-between-twhunter2hunter2 is no key",
	} {
		checkStream(t, r, text, strings.SplitAfter(text, " "))
		for i := range len(text) {
			checkStream(t, r, text, []string{text[:i], text[i:]})
		}
	}
	for id, sample := range samples() {
		before, after := around(id)
		secret := written(sample[0])
		for _, text := range []string{before + secret + after, written(sample[1]), "ask" + secret} {
			for range 3 {
				i := random.IntN(len(text) + 1)
				checkStream(t, r, text, []string{text[:i], text[i:]})
			}
			checkStream(t, r, text, strings.Split(text, ""))
		}
	}
}

func FuzzStream(f *testing.F) {
	f.Add("Authorization: Bearer sk-abcdefghijklmnopqrstuvwxyz hunter2hunter2", uint64(3))
	r, err := New(exacts)
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, text string, seed uint64) {
		checkStream(t, r, text, cutAtRandom(rand.New(rand.NewPCG(seed, 2)), text))
	})
}

// Text that cannot be the beginning of a secret is shown at once, to its last letter.
func TestAStreamHoldsNothingBackThatCannotBeASecret(t *testing.T) {
	r, err := New([]string{"hunter2hunter2"})
	if err != nil {
		t.Fatal(err)
	}
	s := r.Stream()
	for _, piece := range []string{
		"Hello", " wor", "ld", ". ", "你好", "，世界", " one", " two", "\n", "see https://example.org/a?b=c", " behind", "!",
		" `f(x)`", "\n\n1. first",
	} {
		if got := s.Add(piece); got != piece {
			t.Errorf("of %q it shows %q", piece, got)
		}
	}
	for _, step := range [][2]string{
		{" hunter2", " "},
		{"hun", ""},
		{"ted", "hunter2hunted"},
		{" sk-", " "},
		{"ip", ""},
		{".", "sk-ip."},
		{" task-", " task"},
		{" hunter2hunter2", "- "},
		{",", ""},
		{"and so", "[redacted],and so"},
	} {
		if got := s.Add(step[0]); got != step[1] {
			t.Errorf("of %q it shows %q, want %q", step[0], got, step[1])
		}
	}
	if got := s.End() + s.Add(" x-hunter2") + s.End(); got != " x-hunter2" {
		t.Errorf("at its ends it shows %q", got)
	}
	s.Add("hunter2")
	s.Reset()
	if got := s.Add("hunter2") + s.End(); got != "hunter2" {
		t.Errorf("a stream that begins again shows %q", got)
	}
}

// A stream takes an underscore before a piece for the word that the piece goes on with.
func TestNoRuleBeginsWithAnUnderscore(t *testing.T) {
	for _, at := range patterns().ascii[0]['_'] {
		t.Errorf("instruction %d takes it", at)
	}
}

// BenchmarkStream streams 64 KiB in pieces of 4 bytes. The time must not grow with the square of what is held back.
func BenchmarkStream(b *testing.B) {
	for name, line := range map[string]string{
		"prose": "The quick brown fox: at 12:30 it jumped over https://example.org/a/b?c=d and then, " +
			"with skill, slept.\n",
		"han":    "快速的棕色狐狸跳过了懒狗，然后睡着了。",
		"secret": "sk-abcdefghijklmnopqrstuvwxyz ",
		"held":   "",
	} {
		text := strings.Repeat(line, 64<<10/max(1, len(line)))
		if name == "held" {
			text = "-----BEGIN PRIVATE KEY-----" + strings.Repeat("abcd efgh\n", 6554)
		}
		b.Run(name, func(b *testing.B) {
			r, err := New(exacts)
			if err != nil {
				b.Fatal(err)
			}
			b.SetBytes(int64(len(text)))
			b.ReportAllocs()
			for b.Loop() {
				s := r.Stream()
				for at := 0; at < len(text); at += 4 {
					s.Add(text[at:min(at+4, len(text))])
				}
				s.End()
			}
		})
	}
}
