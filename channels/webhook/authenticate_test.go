package webhook

import (
	"encoding/base64"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/internal/signedpost"
)

func TestWeakOrUnusableCredentialsAreRefused(t *testing.T) {
	short := "whsec_" + base64.StdEncoding.EncodeToString([]byte("fifteen bytes.."))
	for name, c := range map[string]struct{ token, secret, names string }{
		"neither":                     {"", "", "webhook.token"},
		"a short token":               {"fifteen-bytes..", "", "webhook.token"},
		"a token with a space":        {"sixteen bytes...", "", "webhook.token"},
		"a token beyond ASCII":        {"sixteen-bytes-äöü", "", "webhook.token"},
		"a token with a line break":   {"sixteen-bytes...\n", "", "webhook.token"},
		"a short secret":              {"", short, "webhook.secret"},
		"a secret without its prefix": {"", strings.TrimPrefix(testSecret, "whsec_"), "webhook.secret"},
		"a secret that is not base64": {"", "whsec_***not-base64-at-all***", "webhook.secret"},
		"a good token and bad secret": {testToken, short, "webhook.secret"},
		"a bad token and good secret": {"short", testSecret, "webhook.token"},
	} {
		_, err := newCredentials(c.token, c.secret)
		if err == nil {
			t.Errorf("%s is accepted", name)
			continue
		}
		if hint := corebot.HintOf(err); !strings.Contains(err.Error(), c.names) || !strings.Contains(hint, c.names) {
			t.Errorf("%s: %v (%s) does not name %s", name, err, hint, c.names)
		}
		for _, secret := range []string{c.token, c.secret} {
			if secret != "" && strings.Contains(err.Error()+corebot.HintOf(err), secret) {
				t.Errorf("%s: the error shows the credential: %v", name, err)
			}
		}
	}
	for _, c := range [][2]string{{"sixteen-bytes...", ""}, {
		"",
		"whsec_" + base64.StdEncoding.EncodeToString([]byte("sixteen bytes...")),
	}, {testToken, testSecret}} {
		if _, err := newCredentials(c[0], c[1]); err != nil {
			t.Errorf("%v is refused: %v", c, err)
		}
	}
}

func TestABearerTokenIsTheWholeToken(t *testing.T) {
	within(t, func(t *testing.T) {
		f := start(t, Options{})
		for value, want := range map[string]int{
			"Bearer " + testToken:                  202,
			"bearer " + testToken:                  202,
			"":                                     401,
			"Bearer":                               401,
			"Bearer ":                              401,
			testToken:                              401,
			"Basic " + testToken:                   401,
			"Bearer  " + testToken:                 401,
			"Bearer " + testToken + "x":            401,
			"Bearer " + testToken[:20]:             401,
			"Bearer " + strings.ToUpper(testToken): 401,
		} {
			r := f.request("POST", pathPost, strings.NewReader(goodBody))
			r.Header.Set("Authorization", value)
			got := f.do(r)
			if got.status != want {
				t.Errorf("%q: %d, want %d", value, got.status, want)
			}
			if want == 401 {
				wantProblem(t, got, 401, "bearer token")
				if !strings.HasPrefix(got.header.Get("WWW-Authenticate"), "Bearer") {
					t.Errorf("WWW-Authenticate is %q", got.header.Get("WWW-Authenticate"))
				}
			}
		}
		twice := f.request("POST", pathPost, strings.NewReader(goodBody))
		twice.Header.Add("Authorization", "Bearer x")
		wantProblem(t, f.do(twice), 401, "")
		for _, path := range []string{pathOutbound, pathStream} {
			r := f.request("GET", path+"?chatId=c", nil)
			r.Header.Del("Authorization")
			wantProblem(t, f.do(r), 401, "")
		}
	})
}

func TestAWrongTokenIsRefusedBeforeTheBodyIsSent(t *testing.T) {
	within(t, func(t *testing.T) {
		f := start(t, Options{})
		for _, framing := range []string{"Content-Length: 1000", "Transfer-Encoding: chunked"} {
			began := time.Now()
			p := f.dial()
			p.say("POST /webhook HTTP/1.1\r\nHost: h\r\nAuthorization: Bearer wrong\r\n" + framing + "\r\n\r\n")
			wantProblem(t, p.hear(), 401, "")
			wantTook(t, began, 0)
			p.wantClosed()
			wantTook(t, began, lingerTime)
		}
	})
}

// signed makes a signed request with no token.
func (f *fixture) signed(method, path, body string, at time.Time) *http.Request {
	f.t.Helper()
	r := f.request(method, path, strings.NewReader(body))
	r.Header.Del("Authorization")
	key, err := signedpost.ParseKey("test", testSecret)
	if err != nil {
		f.t.Fatal(err)
	}
	key.Sign(r.Header, "msg_1", at, []byte(body))
	return r
}

func TestASignedRequestNeedsNoToken(t *testing.T) {
	within(t, func(t *testing.T) {
		for name, o := range map[string]Options{
			"only a secret": {Secret: testSecret},
			"both":          {Secret: testSecret, Token: testToken},
		} {
			f := start(t, o)
			if got := f.do(f.signed("POST", pathPost, goodBody, time.Now())); got.status != 202 {
				t.Errorf("%s, a POST: %d %s", name, got.status, got.body)
			}
			if got := f.do(f.signed("GET", pathOutbound+"?chatId=c", "", time.Now())); got.status != 200 {
				t.Errorf("%s, a GET: %d %s", name, got.status, got.body)
			}
			wrongToken := f.signed("POST", pathPost, goodBody, time.Now())
			wrongToken.Header.Set("Authorization", "Bearer for-somebody-else")
			if got := f.do(wrongToken); got.status != 202 {
				t.Errorf("%s, with a token of another's: %d %s", name, got.status, got.body)
			}
		}
		f := start(t, Options{Token: testToken})
		wantProblem(t, f.do(f.signed("POST", pathPost, goodBody, time.Now())), 401, "not accepted here")
	})
}

func TestASignatureThatDoesNotFitIsRefusedBeforeTheBodyIsParsed(t *testing.T) {
	within(t, func(t *testing.T) {
		f := start(t, Options{Secret: testSecret})
		now := time.Now()
		for name, change := range map[string]func(*http.Request){
			"another body": func(r *http.Request) {
				r.Body = readOnce(strings.Replace(goodBody, "hello",
					"hullo", 1))
			},
			"another id": func(r *http.Request) { r.Header.Set(signedpost.HeaderID, "msg_2") },
			"another time": func(r *http.Request) {
				r.Header.Set(signedpost.HeaderTimestamp,
					strconv.FormatInt(now.Unix()+1, 10))
			},
			"no id":        func(r *http.Request) { r.Header.Del(signedpost.HeaderID) },
			"no time":      func(r *http.Request) { r.Header.Del(signedpost.HeaderTimestamp) },
			"no signature": func(r *http.Request) { r.Header.Del(signedpost.HeaderSignature) },
			"two ids":      func(r *http.Request) { r.Header.Add(signedpost.HeaderID, "msg_1") },
			"two signature headers": func(r *http.Request) {
				r.Header.Add(signedpost.HeaderSignature,
					r.Header.Get(signedpost.HeaderSignature))
			},
			"a time that is no number": func(r *http.Request) { r.Header.Set(signedpost.HeaderTimestamp, "now") },
			"a negative time": func(r *http.Request) {
				r.Header.Set(signedpost.HeaderTimestamp, "-9223372036854775808")
			},
			"another scheme": func(r *http.Request) {
				r.Header.Set(signedpost.HeaderSignature,
					"v2"+r.Header.Get(signedpost.HeaderSignature)[2:])
			},
			"no scheme": func(r *http.Request) {
				r.Header.Set(signedpost.HeaderSignature,
					r.Header.Get(signedpost.HeaderSignature)[3:])
			},
			"an empty signature": func(r *http.Request) { r.Header.Set(signedpost.HeaderSignature, "v1,") },
			"a shorter signature": func(r *http.Request) {
				r.Header.Set(signedpost.HeaderSignature,
					r.Header.Get(signedpost.HeaderSignature)[:27])
			},
		} {
			r := f.signed("POST", pathPost, goodBody, now)
			change(r)
			detail := "no signature in"
			if strings.HasPrefix(name, "no id") || strings.HasPrefix(name, "no time") || name == "no signature" ||
				strings.HasPrefix(name, "two") {
				detail = "each of them once"
			} else if strings.HasSuffix(name, "number") || name == "a negative time" {
				detail = "webhook-timestamp"
			}
			wantProblem(t, f.do(r), 401, detail)
			if f.door.count() > 0 {
				t.Fatalf("%s: the message came in", name)
			}
		}
		notJSON := f.signed("POST", pathPost, goodBody, now)
		notJSON.Body = readOnce(strings.Repeat("}", len(goodBody)))
		wantProblem(t, f.do(notJSON), 401, "no signature")
		wantProblem(t, f.do(f.signed("POST", pathPost, "}", now)), 400, "")
		wantProblem(t, f.do(f.signed("GET", pathOutbound+"?chatId=c", "a body that is signed", now)), 401, "")
	})
}

func TestASignatureIsGoodForFiveMinutesEitherWay(t *testing.T) {
	within(t, func(t *testing.T) {
		f := start(t, Options{Secret: testSecret})
		for off, want := range map[time.Duration]int{-301: 401, -300: 202, 0: 202, 300: 202, 301: 401} {
			if got := f.do(f.signed("POST", pathPost, goodBody, time.Now().Add(off*time.Second))); got.status != want {
				t.Errorf("%d s away: %d, want %d", off, got.status, want)
			}
		}
	})
}

func TestReplacedCredentialsAreRefusedAtOnce(t *testing.T) {
	within(t, func(t *testing.T) {
		f := start(t, Options{Token: testToken, Secret: testSecret})
		if err := f.SetCredentials("short", ""); err == nil {
			t.Error("a short token was taken")
		}
		if got := f.post(goodBody); got.status != 202 {
			t.Errorf("after a change that was refused: %d", got.status)
		}
		if err := f.SetCredentials(nextToken, ""); err != nil {
			t.Fatal(err)
		}
		wantProblem(t, f.post(goodBody), 401, "")
		wantProblem(t, f.do(f.signed("POST", pathPost, goodBody, time.Now())), 401, "")
		r := f.request("POST", pathPost, strings.NewReader(goodBody))
		r.Header.Set("Authorization", "Bearer "+nextToken)
		if got := f.do(r); got.status != 202 {
			t.Errorf("with the new token: %d", got.status)
		}
	})
}

func TestACredentialThatIsReplacedWhileTheBodyComesIsRefused(t *testing.T) {
	within(t, func(t *testing.T) {
		f := start(t, Options{})
		p := f.dial()
		p.say("POST /webhook HTTP/1.1\r\nHost: h\r\nAuthorization: Bearer " + testToken +
			"\r\nContent-Type: application/json\r\nContent-Length: " + strconv.Itoa(len(goodBody)) + "\r\n\r\n")
		time.Sleep(time.Second)
		if err := f.SetCredentials(nextToken, ""); err != nil {
			t.Fatal(err)
		}
		p.say(goodBody)
		wantProblem(t, p.hear(), 401, "replaced")
		if f.door.count() != 0 {
			t.Error("the message came in")
		}
	})
}
