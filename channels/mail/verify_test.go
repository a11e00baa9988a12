package mail

import (
	"strings"
	"testing"
)

func TestOnlyTheHighestResultsOfTheReceivingServerVerifyASender(t *testing.T) {
	const id = "mx.org"
	field := func(value string) string { return "Authentication-Results: " + value + "\r\n" }
	pass := field("mx.org; dmarc=pass header.from=people.test")
	for name, c := range map[string]struct {
		header string
		want   bool
	}{
		"DMARC has passed": {pass, true},
		"with comments, and folded": {field("mx.org 1; spf=none;\r\n\tdmarc=pass (p=none; dis=none) " +
			"header.from=people.test"), true},
		"the name in other letters":        {field("MX.org; dmarc=PASS header.from=People.Test"), true},
		"a signature of the very domain":   {field("mx.org; dkim=pass header.d=people.test; dmarc=none"), true},
		"an envelope of the very domain":   {field("mx.org; spf=pass smtp.mailfrom=x@people.test"), true},
		"a user of the server":             {field("mx.org; auth=pass smtp.mailfrom=ann@people.test"), true},
		"nothing was checked":              {"", false},
		"none":                             {field("mx.org; none"), false},
		"of another server":                {field("mx.example; dmarc=pass header.from=people.test"), false},
		"his own below one that fails":     {field("mx.org; dmarc=fail header.from=people.test") + pass, false},
		"his own below one of another":     {field("mx.example; spf=none") + pass, false},
		"his own below one that is broken": {field(`mx.org; dmarc="`) + pass, false},
		"DMARC of another domain":          {field("mx.org; dmarc=pass header.from=evil.test"), false},
		"DMARC of no domain":               {field("mx.org; dmarc=pass"), false},
		"DMARC has failed": {field("mx.org; dkim=pass header.d=people.test; dmarc=fail " +
			"header.from=people.test"), false},
		"one DMARC passes and one fails": {field("mx.org; dmarc=pass header.from=people.test; dmarc=fail " +
			"header.from=people.test"), false},
		"a signature of another domain":     {field("mx.org; dkim=pass header.d=evil.test"), false},
		"a signature of a part of the name": {field("mx.org; dkim=pass header.d=test"), false},
		"another user of the server":        {field("mx.org; auth=pass smtp.mailfrom=eve@people.test"), false},
		"a login under the address":         {field("mx.org; auth=pass smtp.auth=Ann@people.test"), true},
		"a login under the address, with another envelope": {
			field("mx.org; auth=pass smtp.auth=ann@people.test smtp.mailfrom=list@people.test"), true,
		},
		"a login of another, with an envelope of this one, as Rspamd writes it": {
			field("mx.org;\r\n\tauth=pass smtp.auth=eve@people.test smtp.mailfrom=ann@people.test"), false,
		},
		"the same as two checks": {
			field("mx.org; auth=pass smtp.mailfrom=ann@people.test; auth=pass smtp.auth=eve@people.test"), false,
		},
		"the same with an envelope that SPF lets pass": {
			field("mx.org; spf=pass smtp.mailfrom=ann@people.test; auth=pass smtp.auth=eve@people.test"), false,
		},
		"the same with a domain that DMARC lets pass": {
			field("mx.org; dmarc=pass header.from=people.test; auth=pass smtp.auth=eve@people.test"), false,
		},
		"logins of two": {
			field("mx.org; auth=pass smtp.auth=ann@people.test; auth=pass smtp.auth=eve@people.test"), false,
		},
		"a login of this one that failed, and another's": {
			field("mx.org; auth=fail smtp.auth=ann@people.test; auth=pass smtp.mailfrom=ann@people.test"), false,
		},
		"two checks of one login": {
			field("mx.org; auth=pass smtp.auth=ann@people.test; auth=pass smtp.auth=ANN@people.test"), true,
		},
		"a login in quotes":        {field(`mx.org; auth=pass smtp.auth="ann@people.test"`), true},
		"a local part in quotes":   {field(`mx.org; auth=pass smtp.auth="ann"@people.test`), true},
		"more than one in quotes":  {field(`mx.org; auth=pass smtp.auth="ann@people.test "@evil.test`), false},
		"two addresses in a login": {field(`mx.org; auth=pass smtp.auth="ann@people.test, eve@evil.test"`), false},
		"a login of nobody": {
			field(`mx.org; auth=pass smtp.auth="" smtp.mailfrom=ann@people.test`), false,
		},
		"a local part that is another's domain": {
			field("mx.org; auth=pass smtp.auth=ann smtp.mailfrom=ann@people.test"), false,
		},
		"a login that failed":            {field("mx.org; auth=fail smtp.auth=ann@people.test"), false},
		"an envelope whose login failed": {field("mx.org; auth=fail smtp.mailfrom=ann@people.test"), false},
		"a login under other names of properties": {
			field("mx.org; auth=pass header.auth=ann@people.test policy.mailfrom=ann@people.test " +
				"smtp.user=ann@people.test"), false,
		},
		"a login beside a DMARC that failed": {
			field("mx.org; auth=pass smtp.auth=ann@people.test; dmarc=fail header.from=people.test"), false,
		},
		"a check in a quoted address": {
			field(`mx.org; spf=fail smtp.mailfrom="x; dmarc=pass header.from=people.test "@evil.test`), false,
		},
		"a check in a comment":   {field("mx.org; spf=fail (x; dmarc=pass header.from=people.test)"), false},
		"a check in a reason":    {field(`mx.org; dkim=fail reason="; dmarc=pass header.from=people.test; "`), false},
		"a property said twice":  {field("mx.org; dmarc=pass header.from=evil.test header.from=people.test"), false},
		"a comment without end":  {field("mx.org; dmarc=pass header.from=people.test ("), false},
		"a version from nowhere": {field("mx.org 2; dmarc=pass header.from=people.test"), false},
	} {
		h, _ := split([]byte(c.header + "From: ann@people.test\r\n\r\n"))
		from, _, _ := h.from()
		if got := verified(h, id, from); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
		if verified(h, "", from) {
			t.Errorf("%s: verified without a name", name)
		}
	}
}

func TestALoginWithoutADomainIsOfTheDomainThatChecks(t *testing.T) {
	for _, c := range []struct {
		id, user, from string
		want           bool
	}{
		{"people.test", "ann", "ann@people.test", true},
		{"people.test", "eve", "ann@people.test", false},
		{"mx.people.test", "ann", "ann@people.test", false}, // ann of a department can be somebody else
		{"people.test", "ann", "ann@evil.test", false},
	} {
		h := header{{"authentication-results", c.id + "; auth=pass smtp.auth=" + c.user + " smtp.mailfrom=" + c.from}}
		from, _ := parseAddress(c.from)
		if got := verified(h, c.id, from); got != c.want {
			t.Errorf("%+v: %v", c, got)
		}
	}
}

// FuzzResults: whatever a sender can have put into a quoted text or a comment of the server's field verifies nobody.
func FuzzResults(f *testing.F) {
	for _, s := range []string{
		"", "; dmarc=pass header.from=people.test", `\"; dmarc=pass header.from=people.test`, `\`, "(", ")",
		"\\\\", "\x00",
	} {
		f.Add(s)
	}
	quote := strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\r", "", "\n", "")
	comment := strings.NewReplacer(`\`, `\\`, `(`, `\(`, `)`, `\)`, "\r", "", "\n", "")
	f.Fuzz(func(t *testing.T, s string) {
		parseResults(s)
		for _, value := range []string{
			`mx.org; spf=fail smtp.mailfrom="` + quote.Replace(s) + `"@evil.test`,
			`mx.org; spf=fail (` + comment.Replace(s) + `) smtp.mailfrom=evil.test`,
		} {
			h := header{{"authentication-results", value}}
			if verified(h, "mx.org", address{"ann", "people.test"}) {
				t.Errorf("verified by %q", value)
			}
		}
	})
}

func TestOnlyOneAddressInOneFromIsASender(t *testing.T) {
	for from, want := range map[string]string{
		"From: Ann <ann@people.test>\r\n":                         "ann@people.test",
		"From: ANN@People.Test\r\n":                               "ann@people.test",
		"From: =?utf-8?q?Ann=0d=0aBcc=3a?= <ann@people.test>\r\n": "ann@people.test",
		"From: \"bob@people.test\" <ann@people.test>\r\n":         "ann@people.test",
		"From: ann@people.test, bob@people.test\r\n":              "",
		"From: ann@people.test\r\nFrom: bob@people.test\r\n":      "",
		"From: Ann\r\n": "", "From: <>\r\n": "", "": "",
		"From: \"a b\"@people.test\r\n":                           "",
		"From: ann@people.test\x00\r\n":                           "",
		"From: =?utf-8?q?ann=40people.test?= <eve@evil.test>\r\n": "eve@evil.test",
		"From: аnn@people.test\r\n":                               "", // its first letter is not Latin
		"From: mi\u212ae@people.test\r\n":                         "", // the sign of Kelvin, in lower case a k
	} {
		h, _ := split([]byte(from + "\r\n"))
		a, name, ok := h.from()
		if got := a.String(); ok && got != want || !ok && want != "" || strings.ContainsAny(name, "\r\n\u202e") {
			t.Errorf("%q is %s %q %v", from, got, name, ok)
		}
	}
}
