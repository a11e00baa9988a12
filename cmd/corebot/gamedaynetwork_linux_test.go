package main

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"regexp"
	"strings"
	"sync/atomic"
	"time"

	"github.com/corebot/corebot/agent/llm/llmtest"
	"github.com/corebot/corebot/channels/telegram/telegramtest"
)

// networkDays break what connects Corebot with people.
func networkDays() []gameDay {
	return []gameDay{
		{
			name: "expired-token", play: expiredToken,
			alerts: []string{"CorebotChannelDown"},
			repair: []step{
				{"CorebotChannelDown", "`corebot channels list`"},
				{"CorebotChannelDown", "put the new one into its file and restart Corebot"},
				{"CorebotChannelDown", "`systemctl restart corebot`"},
			},
		},
		{
			name: "sends-fail", play: sendsFail,
			alerts: []string{"CorebotSendsFail", "CorebotSendsAmbiguous"},
			repair: []step{
				{"CorebotSendsFail", "`corebot dlq list --direction outbound`"},
				{"CorebotSendsFail", "Mend the cause"},
				{"CorebotSendsFail", "`corebot dlq replay --direction outbound`"},
			},
		},
	}
}

// platform is a chat network whose token can be changed.
type platform struct {
	*telegramtest.Server
	url   string
	token atomic.Pointer[string]
}

func (d *day) platform() *platform {
	d.t.Helper()
	p := &platform{Server: telegramtest.New()}
	d.t.Cleanup(p.Close)
	to, err := url.Parse(p.URL())
	if err != nil {
		d.t.Fatal(err)
	}
	proxy := httputil.NewSingleHostReverseProxy(to)
	front := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		before := "/bot" + *p.token.Load() + "/"
		if !strings.HasPrefix(r.URL.Path, before) {
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(http.StatusUnauthorized)
			fmt.Fprint(w, `{"ok":false,"error_code":401,"description":"Unauthorized"}`)
			return
		}
		r.URL.Path = strings.Replace(r.URL.Path, before, "/bot"+telegramtest.Token+"/", 1)
		r.URL.RawPath = ""
		proxy.ServeHTTP(w, r)
	}))
	d.t.Cleanup(func() {
		front.CloseClientConnections()
		front.Close()
	})
	p.url = front.URL
	d.newToken(p, "4242:AAfirst-token_of_the_fake_platform_00000")
	d.write("telegram.token", *p.token.Load())
	return p
}

func (d *day) newToken(p *platform, token string) { p.token.Store(&token) }

func (d *day) telegram(p *platform) string {
	return fmt.Sprintf("channels: {telegram: {main: {token: %q, api_url: %q, access: open}}}\n",
		"file:"+d.dir+"/telegram.token", p.url)
}

// answersAnn waits until somebody on the network has an answer.
func (d *day) answersAnn(p *platform, text string) {
	d.t.Helper()
	answers := func() (n int) {
		for _, text := range p.Texts(telegramtest.Ann.ID) {
			if !strings.HasPrefix(text, "hello") {
				n++
			}
		}
		return n
	}
	before := answers()
	p.Say(telegramtest.Said{From: telegramtest.Ann, Text: text})
	d.until("Ann has an answer", seenWithin, func() bool { return answers() > before })
}

func expiredToken(d *day) {
	p := d.platform()
	d.configure(d.llm("") + d.telegram(p))
	d.start()
	d.answersAnn(p, "hello")
	d.breaks(func() {
		d.newToken(p, "4242:AAother-token_of_the_fake_platform_00000")
		p.Cut()
	})
	d.alert("CorebotChannelDown")
	if out := d.runs("`corebot channels list`"); !regexp.MustCompile("401|nauthorized").MatchString(out) {
		d.t.Errorf("the channels are %s", out)
	}
	d.mends("put the new one into its file and restart Corebot", func() { d.write("telegram.token", *p.token.Load()) })
	d.runs("`systemctl restart corebot`")
	d.ready()
	d.answersAnn(p, "hello again")
}

func sendsFail(d *day) {
	p := d.platform()
	p.url = p.URL() // a connection that breaks has to break at Corebot
	d.write("telegram.token", telegramtest.Token)
	d.configure(d.llm("") + d.telegram(p) + "bus: {backoff_base: 100ms, backoff_max: 500ms, max_attempts: 6}\n")
	d.answer(llmtest.Always(llmtest.Text("an answer")))
	d.start()
	d.answersAnn(p, "hello")
	sends := func(f telegramtest.Fault) {
		p.Faults(func(c telegramtest.Call) telegramtest.Fault {
			if c.Method == "sendMessage" {
				return f
			}
			return telegramtest.Fault{}
		})
	}
	d.breaks(func() { sends(telegramtest.Fault{Code: 400, Description: "Bad Request: chat is broken"}) })
	next := time.Now()
	goesOn := func() {
		if time.Now().After(next) {
			p.Say(telegramtest.Said{From: telegramtest.Ann, Text: "hello"})
			next = time.Now().Add(time.Second)
		}
	}
	d.alertWhile(goesOn, "CorebotSendsFail")
	sends(telegramtest.Fault{DropAfter: true}) // it was shown, and nobody says so
	d.alertWhile(goesOn, "CorebotSendsAmbiguous")
	d.runs("`corebot dlq list --direction outbound`")
	d.mends("Mend the cause", func() { p.Faults(nil) })
	d.runs("`corebot dlq replay --direction outbound`")
	d.noLetters()
}
