package redact

import (
	"math"
	"regexp"
	"strings"
	"testing"
)

// samples are for each rule a secret that it finds and text that it leaves. "|" keeps a secret from looking like one to
// a scanner of this source; B stands for 66 mixed letters and digits, H for 66 hexadecimal digits.
func samples() map[string][2]string {
	return map[string][2]string{
		"private-key": {
			"-----BEGIN RSA| PRIVATE KEY-----\nB\nB==\n-----END RSA| PRIVATE KEY-----",
			"-----BEGIN PUBLIC KEY-----\nB\n-----END PUBLIC KEY-----",
		},
		"jwt":                 {"eyJ|hbGciOiJI.eyJ|zdWIiOiI.sig_na-ture", "eyJ is how one begins"},
		"sk-key":              {"sk-|proj-B", "sk-ip and task-force-of-many-letters"},
		"stripe":              {"sk_|live_B", "the task_live_data column"},
		"stripe-webhook":      {"whsec_|B", "whsec_short"},
		"github":              {"ghp_|B", "ghp_x"},
		"github-fine-grained": {"github_|pat_B", "github_pat_x"},
		"gitlab":              {"glrt-|B", "glrt-short"},
		"aws-access-key":      {"AKIA|ABCDEFGHIJKLMNOP", "AKIAB"},
		"google-api-key":      {"AIza|BCDEFGHIJKLMNOPQRSTUVWXYZ0123456789", "AIza is a prefix"},
		"google-oauth":        {"GOCSPX|-abcdefghijklmnopqrstuvwxyz01", "GOCSPX-short"},
		"slack":               {"xoxb-|123456789012-abc", "xoxb-1"},
		"slack-app":           {"xapp-|1-B", "xapp-1-short"},
		"slack-webhook":       {"T0|001B0001BBBBBBBBBB/xyz", "https://hooks.slack.com/services/"},
		"telegram":            {"123456789|:AAbcdefghijklmnopqrstuvwxyz01234567", "at 12:30:45, 12345678:AB"},
		"npm":                 {"npm_|B", "npm_config_cache"},
		"pypi":                {"pypi-|AgEB", "pypi-AgE"},
		"rubygems":            {"rubygems_|H", "rubygems_host"},
		"docker-hub":          {"dckr_|pat_B", "dckr_pat_x"},
		"hugging-face":        {"hf_|B", "half_done and hf_x"},
		"groq":                {"gsk_|B", "gsk_x"},
		"xai":                 {"xai-|B", "xai-org/grok"},
		"perplexity":          {"pplx-|B", "pplx-embed"},
		"replicate":           {"r8_|abcdefghijklmnopqrstuvwxyz0123456789A", "r8_x"},
		"tavily":              {"tvly-|dev-B", "tvly-aaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"},
		"sendgrid":            {"SG.|abcdefghijklmnopqrstuv.abcdefghijklmnopqrstuvwxyz0123456789ABCDEFG", "SG.com"},
		"digitalocean": {
			"dop_|v1_0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef",
			"table_v1_old",
		},
		"shopify":         {"shpat_|0123456789abcdef0123456789ABCDEF", "shpat_x"},
		"databricks":      {"dapi|0123456789abcdef0123456789abcdef", "dapi00000000000000000000000000000000"},
		"vault":           {"hvs.|B", "hvs.aaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"},
		"terraform-cloud": {"atlas|v1.B", "x.atlasv1.y"},
		"grafana":         {"glsa_|B", "glsa_aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"},
		"linear":          {"lin_api_|B", "lin_api_key"},
		"notion":          {"ntn_|B", "ntn_x"},
		"atlassian":       {"ATATT3|xFfB", "ATATT3"},
		"age": {
			"AGE-SECRET|-KEY-10123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789ABCDEFGHIJKL",
			"AGE-SECRET-KEY-1",
		},
		"bearer":        {"abcdefghijklmnop1", "Bearer of news"},
		"authorization": {"dXNlcjpwYXNz", "the authorization token is old"},
		"url-password":  {"pa55", "http://localhost:8080/a@b"},
	}
}

// around is what must stand around a secret of some rules.
func around(id string) (before, after string) {
	switch id {
	case "slack-webhook":
		return "https://hooks.slack.com/services/", ""
	case "bearer":
		return "Authorization: Bearer\t", ""
	case "terraform-cloud":
		return "abcdefghijklmn.", ""
	case "authorization":
		return `"authorization": "basic `, `"`
	case "url-password":
		return "https://bob:", "@example.org/x"
	}
	return "", ""
}

func written(sample string) string {
	const body, hex = "aB3dE5gH7jK9mN1pQ2sT4vW6yZ8aC0eF2hJ4lM6oP8rS0uV2xY4bD6fG8iK0nQ2tU4",
		"0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef01"
	if strings.HasPrefix(sample, "rubygems_") {
		return strings.NewReplacer("|", "", "H", hex[:48]).Replace(sample)
	}
	if !regexp.MustCompile(`(^|[|_.\n-])(dev-|proj-|pat_|live_|1-|v1_|AgE|api_|xFf|atlasv1\.)*B($|=|\n)`).MatchString(
		sample) {
		return strings.ReplaceAll(sample, "|", "")
	}
	return regexp.MustCompile(`B($|=|\n)`).ReplaceAllString(strings.ReplaceAll(sample, "|", ""), body+"$1")
}

func TestEachRuleFindsItsSecretAloneAndLeavesOtherText(t *testing.T) {
	rules, err := readRules(rulesFile)
	if err != nil {
		t.Fatal(err)
	}
	known := samples()
	if len(rules) != len(known) {
		t.Errorf("%d rules have %d samples", len(rules), len(known))
	}
	for _, r := range rules {
		sample, ok := known[r.ID]
		if !ok || r.Description == "" || r.pattern().NumSubexp() < r.SecretGroup {
			t.Errorf("%s: no samples, no description, or no such group", r.ID)
			continue
		}
		secret := written(sample[0])
		before, after := around(r.ID)
		text := "see ünder " + before + secret + after + " and " + before + secret + after
		want := "see ünder " + before + Mark + after + " and " + before + Mark + after
		if got := r.redact(text); got != want {
			t.Errorf("%s:\n    %q became\n    %q", r.ID, text, got)
		}
		harmless := written(sample[1])
		if got := r.redact(harmless); got != harmless {
			t.Errorf("%s: %q became %q", r.ID, harmless, got)
		}
		if spaces := strings.Contains(r.Regex, `\s`) && !strings.Contains(r.Regex, `[^\s`) ||
			strings.Contains(r.Regex, `\s+`); spaces != r.Spaces {
			t.Errorf("%s: spaces = %t", r.ID, r.Spaces)
		}
	}
}

func TestTheSampleOfEveryRuleGoesWithAllRulesTogether(t *testing.T) {
	r, err := New(nil)
	if err != nil {
		t.Fatal(err)
	}
	for id, sample := range samples() {
		before, after := around(id)
		secret := written(sample[0])
		if got := r.Text("a " + before + secret + after + " b"); strings.Contains(got, secret[len(secret)-4:]) {
			t.Errorf("%s: %q is left", id, got)
		}
	}
}

func TestRulesThatCannotWorkAreRefused(t *testing.T) {
	for _, text := range []string{
		"[[rules]]\nregex = 'a'\nkeywords = ['a']", "[[rules]]\nid = 'a'\nregex = 'a'",
		"[[rules]]\nid = 'a'\nregex = 'a'\nkeywords = ['']",
		"[[rules]]\nid = 'a'\nregexp = 'a'\nkeywords = ['a']", "[[rules]",
	} {
		if rules, err := readRules(text); err == nil {
			t.Errorf("%q gives %+v", text, rules)
		}
	}
}

func TestEntropyIsInBitsAByte(t *testing.T) {
	for s, want := range map[string]float64{"": 0, "aaaa": 0, "abab": 1, "abcd": 2, "0123456789abcdef": 4} {
		if got := entropy(s); math.Abs(got-want) > 1e-9 {
			t.Errorf("%q: %v, want %v", s, got, want)
		}
	}
}
