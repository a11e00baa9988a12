package config

import (
	"reflect"
	"strings"
	"testing"
	"time"
)

func TestAnAnswerIsAValueOfItsSetting(t *testing.T) {
	for key, answers := range map[string]map[string]any{
		"api_url":     {"http://loft": "http://loft"},
		"every":       {"5s": "5s", "5": nil, "soon": nil},
		"retry.times": {"7": int64(7), "seven": nil, "7s": nil},
	} {
		asked, known := pigeons().Ask(key)
		if !known || asked.Secret {
			t.Errorf("%s is asked for as %+v, %v", key, asked, known)
		}
		for text, want := range answers {
			got, err := asked.Value(text)
			if got != want || (err != nil) != (want == nil) {
				t.Errorf("%s: %q is %v, %v", key, text, got, err)
			}
		}
	}
	if asked, known := pigeons().Ask("token"); !known || !asked.Secret {
		t.Errorf("the token is asked for as %+v, %v", asked, known)
	}
	if asked, _ := pigeons().Ask("every"); asked.Standard != time.Minute {
		t.Errorf("the default is %v", asked.Standard)
	}
	if _, known := pigeons().Ask("wings"); known {
		t.Error("wings are no setting")
	}
}

func TestAnAccountIsMadeOfTheFileAndItsChanges(t *testing.T) {
	t.Setenv("LOFT", "s3cret-of-the-loft")
	home := homeWith(t, "corebot.yaml", "channels: {Pigeon: {main: {groups: all, every: 3s, retry: {times: 1}}}}")
	a, err := AccountOf(home, pigeons(), "main", map[string]any{"token": "env:LOFT", "retry.times": 2})
	var own pigeon
	if err == nil {
		err = a.Decode(&own)
	}
	want := pigeon{Token: "s3cret-of-the-loft", Every: 3 * time.Second, Retry: pigeonRetry{Times: 2}}
	if err != nil || !reflect.DeepEqual(own, want) || a.Common.Groups != "all" {
		t.Errorf("it is %+v with %+v, %v", a.Common, own, err)
	}
	for want, section := range map[string]map[string]any{
		"it has no token":              {},
		"NO_LOFT: the variable is not": {"token": "env:NO_LOFT"},
		`unknown key "wings"`:          {"token": "x", "wings": 2},
		`access is "all"`:              {"token": "x", "access": "all"},
	} {
		_, err := AccountOf(t.TempDir(), pigeons(), "main", section)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: %v, want %q", section, err, want)
		}
	}
}
