package terms_test

import (
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/corebot/corebot/internal/terms"
)

func texts(s string) []string {
	var out []string
	for t := range terms.All(s) {
		out = append(out, t.Text)
	}
	return out
}

func TestATextIsCutIntoTerms(t *testing.T) {
	for text, want := range map[string]string{
		"":                       "",
		" ,.-!\n\"' ":            "",
		"Hello, World 42":        "hello world 42",
		"don't re-use foo_bar":   "don t re use foo bar",
		"Ærø Łódź Straße İzmir":  "aero lodz strasse izmir",
		"naïve cafe\u0301 CAFÉ":  "naive cafe cafe",
		"ΣΊΣΥΦΟΣ σίσυφος":        "σισυφοσ σισυφοσ",
		"Ёлка ёлка":              "елка елка",
		"مُحَمَّد مـحـمـد":       "محمد محمد",
		"שָׁלוֹם":                "שלום",
		"می\u200cخواهم":          "میخواهم",
		"東京":                     "東京 京",
		"字":                      "字",
		"東京tower 塔":              "東京 京 tower 塔",
		"ﾊﾟﾝ パン":                 "パン ン パン ン",
		"が か\u3099":              "が が",
		"ＡＢＣ１２":                  "abc12",
		"학교에서":                   "학교 교에 에서 서",
		"กำลัง":                  "กํา ําลั ลัง ง",
		"हिन्दी":                 "हिन्दी",
		"🚀👩‍🚀👍🏽":                 "🚀 👩 🚀 👍",
		"5€ ½ ℀ \u00a8":          "5 € 1⁄2 ac",
		"a\xff\xfeb":             "a b",
		"\u0301\u0301 \u200b":    "",
		strings.Repeat("x", 200): strings.Repeat("x", 64),
	} {
		if got := strings.Join(texts(text), " "); got != want {
			t.Errorf("%q: got %q, want %q", text, got, want)
		}
	}
}

// corpus is a text, with queries that find it. The queries that do not find it are in others.
var corpus = []struct{ script, text, finds, others string }{
	{
		"Latin", "Der Flug nach Malmö geht um 7:45 ab Gate B12.",
		"flug|MALMO|malmö|Flüg|gate b12|\"gate b12\"|7:45|b12",
		"\"b12 gate\"|lug|malm0",
	},
	{"Latin (Vietnamese)", "Tôi thích uống cà phê sữa đá mỗi sáng.", "ca phe|cà phê|sua da|\"sữa đá\"", "\"phê cà\""},
	{"Latin (Turkish)", "İstanbul'da ışıklar söndü", "istanbul|isik|ışık|sondu", "stanbul"},
	{
		"Cyrillic", "Позвони маме, у неё день рождения в четверг.", "мам|\"день рождения\"|нее|НЕЁ|рожд",
		"\"рождения день\"|отец",
	},
	{"Greek", "Η πτήση για την Αθήνα ακυρώθηκε", "αθηνα|ΠΤΉΣΗ|ακυρ", "θήνα"},
	{"Arabic", "الاجتماع يوم الثلاثاء في المكتب الجديد", "الاجتماع|الثُّلاثاء|\"المكتب الجديد\"", "الأربعاء"},
	{"Persian", "من می\u200cخواهم کتاب را بخوانم", "میخواهم|می\u200cخواهم|کتاب", "قلم"},
	{"Hebrew", "הפגישה נדחתה ליום ראשון", "פגישה הפגישה|רִאשׁוֹן", "שני"},
	{"Devanagari", "मुझे कल सुबह डॉक्टर के पास जाना है", "डॉक्टर|सुबह|\"कल सुबह\"", "शाम"},
	{"Tamil", "நாளை காலை சந்திப்போம்", "காலை|சந்தி", "மாலை"},
	{"Thai", "ฉันอยากกินข้าวผัดกุ้งที่กรุงเทพ", "ข้าวผัด|กรุงเทพ|กุ้ง|ข้าว", "เชียงใหม่"},
	{"Chinese", "明天下午三点在北京大学开会，请带上护照。", "北京|北京大学|护照|照|会|\"三点\"|下午 护照", "京北|南京"},
	{"Japanese", "来週の月曜日に東京タワーで会いましょう。", "東京|東京タワー|月曜日|ﾀﾜｰ|会|塔 東京塔 東京", "京東|火曜"},
	{"Korean", "서울대학교에서 만나요", "대학교|서울|학교|만", "부산"},
	{"Armenian", "Երևանում անձրև է", "երևան|անձրև", "արև"},
	{"Georgian", "თბილისში ვცხოვრობ", "თბილის", "ბათუმი"},
	{"Amharic", "አዲስ አበባ ውስጥ እኖራለሁ", "አበባ|\"አዲስ አበባ\"", "ጎንደር"},
	{"Khmer", "ខ្ញុំចូលចិត្តភ្នំពេញ", "ភ្នំពេញ|ចិត្ត", "សៀមរាប"},
	{"emoji", "Launch is on 🚀🎉 with 👩‍🚀 and 🇩🇪!", "🚀|👩‍🚀|🇩🇪|launch 🎉|👩🏽‍🚀", "🍕|🇫🇷"},
	{"numbers", "Invoice 2026-1147 over 1.250,00 €", "1147|2026-1147|1.250|€|invoice €", "1148"},
}

func TestWhatWasSaidIsFoundInAnyScript(t *testing.T) {
	for _, c := range corpus {
		for _, query := range strings.Split(c.finds, "|") {
			q := terms.Parse(query)
			if strings.Contains(query, " ") && !strings.Contains(query, `"`) && q.In(c.text).Phrases < len(q.Phrases) {
				q = q.Loose() // some of the words are of no entry
			}
			if f := q.In(c.text); f.Phrases == 0 || f.End <= f.Start || !utf8.ValidString(c.text[f.Start:f.End]) {
				t.Errorf("%s: %q does not find %q: %+v", c.script, query, c.text, f)
			}
		}
		for _, query := range strings.Split(c.others, "|") {
			if q := terms.Parse(query); len(q.Phrases) == 0 || q.In(c.text).Phrases == len(q.Phrases) {
				t.Errorf("%s: %q finds %q", c.script, query, c.text)
			}
		}
	}
}

func TestEveryOneAndTwoCharactersOfATextWithoutSpacesAreFound(t *testing.T) {
	text := []rune("明天下午三点在北京大学开会请带上护照")
	for i := range text {
		for n := 1; n <= 5 && i+n <= len(text); n++ {
			if query := string(text[i : i+n]); terms.Parse(query).In(string(text)).Phrases != 1 {
				t.Errorf("%q is not found", query)
			}
		}
	}
}

func TestAQueryIsWordsAndQuotedPhrases(t *testing.T) {
	q := terms.Parse(`an "exact Phrase" foo-bar an 東京 "unclosed`)
	want := []terms.Phrase{
		{Terms: []string{"an"}},
		{Terms: []string{"exact", "phrase"}, Prefix: true},
		{Terms: []string{"foo", "bar"}, Prefix: true},
		{Terms: []string{"東京"}},
		{Terms: []string{"unclosed"}, Prefix: true},
	}
	if !slices.EqualFunc(q.Phrases, want, func(a, b terms.Phrase) bool {
		return a.Prefix == b.Prefix &&
			slices.Equal(a.Terms, b.Terms)
	}) {
		t.Errorf("got %+v", q.Phrases)
	}
	if loose := q.Loose(); len(loose.Phrases) != 7 {
		t.Errorf("loose: %+v", loose.Phrases)
	}
	if many := terms.Parse(strings.Repeat("a b c d e f g h i j k l m n o p q r s t u v w x y z 0 1 2 3 4 5 6 7 8 9 ",
		3)); len(many.Phrases) != 32 {
		t.Errorf("%d phrases", len(many.Phrases))
	}
	if none := terms.Parse(` "" "!" ...`); len(none.Phrases) != 0 || none.In("anything").Phrases != 0 {
		t.Errorf("got %+v", none)
	}
}

func TestAnExcerptShowsThePlace(t *testing.T) {
	text := strings.Repeat("before ", 100) + "the\nneedle here " + strings.Repeat("ä hinter ", 100)
	at := terms.Parse("needle").In(text)
	got := terms.Excerpt(text, at, 60)
	if !strings.Contains(got, "the needle here") || !strings.HasPrefix(got, "…") || !strings.HasSuffix(got, "…") ||
		len(got) > 70 || !utf8.ValidString(got) {
		t.Errorf("got %q", got)
	}
	for text, want := range map[string]string{"short text": "short text", "": ""} {
		if got := terms.Excerpt(text, terms.Found{}, 60); got != want {
			t.Errorf("got %q", got)
		}
	}
}

func FuzzAnyTextIsCutAndAnyQueryLooksIntoIt(f *testing.F) {
	for _, c := range corpus {
		f.Add(c.text, strings.ReplaceAll(c.finds, "|", " "))
	}
	f.Add("\xff\u0301字", "\"\"\"a\u200d")
	f.Add("℀", "\u3099")
	f.Fuzz(func(t *testing.T, text, query string) {
		end := 0
		for term := range terms.All(text) {
			if term.Text == "" || len(term.Text) > 64 || !utf8.ValidString(term.Text) || term.Start >= term.End ||
				term.End > len(text) || term.End < end {
				t.Fatalf("%+v of %q", term, text)
			}
			end = term.End
			if i := strings.IndexFunc(term.Text, func(r rune) bool {
				return r < 0x80 &&
					!strings.ContainsRune("abcdefghijklmnopqrstuvwxyz0123456789", r)
			}); i >= 0 {
				t.Fatalf("the term %q of %q is not folded", term.Text, text)
			}
		}
		q := terms.Parse(query)
		at := q.In(text)
		if at.Phrases > len(q.Phrases) || at.Start > at.End || at.End > len(text) {
			t.Fatalf("%+v of %q in %q", at, query, text)
		}
		if got := terms.Excerpt(text, at, 40); len(got) > 40+len("……") {
			t.Fatalf("an excerpt of %d bytes: %q", len(got), got)
		}
		for _, p := range q.Phrases {
			if len(p.Terms) == 0 {
				t.Fatalf("an empty phrase of %q", query)
			}
		}
		for word := range strings.FieldsSeq(text) { // what stands there is found
			if !strings.Contains(word, `"`) && len(texts(word)) > 0 && len(texts(word)) < 60 {
				if q := terms.Parse(word); len(q.Phrases) > 0 && q.In(text).Phrases == 0 {
					t.Fatalf("%q is not found in %q", word, text)
				}
			}
		}
	})
}
