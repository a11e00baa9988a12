package otlp

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/binary"
	"fmt"
	"math"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/corebot/corebot"
)

// settings are what the standard variables of OpenTelemetry say.
type settings struct {
	off      bool // the variables switch tracing off
	endpoint *url.URL
	headers  http.Header
	timeout  time.Duration // of one post
	gzip     bool
	tls      *tls.Config
	queue    int
	batch    int
	delay    time.Duration // for how long a span waits at most until its batch is posted
	resource [][2]string
	sample   func(parent corebot.Trace, id [16]byte) bool
}

// reader reads variables and keeps the first error.
type reader struct {
	get func(string) string
	err error
}

// value is that of the first variable that is set. Its name is for errors.
func (r *reader) value(names ...string) (value, name string) {
	for _, name := range names {
		if v := strings.TrimSpace(r.get(name)); v != "" {
			return v, name
		}
	}
	return "", names[0]
}

// refuse never quotes a value: some are secret.
func (r *reader) refuse(name, hint string) {
	if r.err == nil {
		r.err = corebot.WithHint(fmt.Errorf("%w: the variable %s cannot be used", corebot.ErrInvalid, name), hint)
	}
}

// of gives a variable of OTLP, for traces or for all signals.
func of(name string) []string {
	return []string{"OTEL_EXPORTER_OTLP_TRACES_" + name, "OTEL_EXPORTER_OTLP_" + name}
}

func (r *reader) number(standard, least, most int, names ...string) int {
	v, name := r.value(names...)
	if v == "" {
		return standard
	}
	n, err := strconv.Atoi(v)
	if err != nil || n < least || n > most {
		r.refuse(name, fmt.Sprintf("it is a number from %d to %d", least, most))
	}
	return n
}

func (r *reader) millis(standard time.Duration, names ...string) time.Duration {
	return time.Duration(r.number(int(standard.Milliseconds()), 1, int(time.Hour.Milliseconds()), names...)) *
		time.Millisecond
}

// oneOf gives a value of a list, whose first is the standard.
func (r *reader) oneOf(allowed []string, names ...string) string {
	v, name := r.value(names...)
	if v == "" {
		return allowed[0]
	}
	if !slices.Contains(allowed, v) {
		r.refuse(name, "Corebot has "+strings.Join(allowed, ", "))
	}
	return v
}

// read reads all variables. An error names the variable.
func read(get func(string) string, version, instance string) (settings, error) {
	r := &reader{get: get}
	disabled, _ := r.value("OTEL_SDK_DISABLED")
	s := settings{
		off: strings.EqualFold(disabled, "true") ||
			r.oneOf([]string{"otlp", "none"}, "OTEL_TRACES_EXPORTER") == "none",
		timeout: r.millis(10*time.Second, of("TIMEOUT")...),
		gzip:    r.oneOf([]string{"none", "gzip"}, of("COMPRESSION")...) == "gzip",
		queue:   r.number(2048, 1, 1<<16, "OTEL_BSP_MAX_QUEUE_SIZE"),
		batch:   r.number(512, 1, 1<<13, "OTEL_BSP_MAX_EXPORT_BATCH_SIZE"),
		delay:   r.millis(5*time.Second, "OTEL_BSP_SCHEDULE_DELAY"),
	}
	r.oneOf([]string{"http/protobuf"}, of("PROTOCOL")...)
	s.endpoint = r.endpoint()
	s.headers = r.headers()
	s.tls = r.tls()
	s.sample = r.sampler()
	s.resource = r.resource(version, instance)
	return s, r.err
}

const standardPort = "http://localhost:4318"

// endpoint is where spans are posted: a variable for all signals names the server only.
func (r *reader) endpoint() *url.URL {
	names := of("ENDPOINT")
	text, name := r.value(names[0])
	if text == "" {
		text, name = r.value(names[1])
		if text == "" {
			text = standardPort
		}
		text = strings.TrimRight(text, "/") + "/v1/traces"
	}
	u, err := url.Parse(text)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.User != nil || u.Fragment != "" {
		r.refuse(name, "it is an address such as "+standardPort+
			", without a user; OTEL_EXPORTER_OTLP_HEADERS can have a password")
		return nil
	}
	return u
}

// pairs reads a list such as "a=1,b=2", whose values are percent-encoded.
func (r *reader) pairs(names ...string) (pairs [][2]string, name string) {
	text, name := r.value(names...)
	for entry := range strings.SplitSeq(text, ",") {
		if strings.TrimSpace(entry) == "" {
			continue
		}
		k, v, found := strings.Cut(entry, "=")
		k = strings.TrimSpace(k)
		v, err := url.PathUnescape(strings.TrimSpace(v))
		if !found || k == "" || err != nil || len(pairs) == maxPairs {
			r.refuse(name, "it is a list such as name=value,other=value")
			break
		}
		pairs = append(pairs, [2]string{k, v})
	}
	return pairs, name
}

const maxPairs = 64

func (r *reader) headers() http.Header {
	h := http.Header{}
	pairs, name := r.pairs(of("HEADERS")...)
	for _, p := range pairs {
		if strings.ContainsFunc(p[0], func(c rune) bool { return c <= ' ' || c >= 0x7f || c == ':' }) ||
			strings.ContainsFunc(p[1], func(c rune) bool { return c < ' ' || c == 0x7f }) {
			r.refuse(name, "one of its headers cannot be sent")
		}
		h.Set(p[0], p[1])
	}
	return h
}

// tls is the trust in the server, and what shows the server who posts; nil: the standard.
func (r *reader) tls() *tls.Config {
	authority, name := r.value(of("CERTIFICATE")...)
	own, ownName := r.value(of("CLIENT_CERTIFICATE")...)
	key, _ := r.value(of("CLIENT_KEY")...)
	c := &tls.Config{MinVersion: tls.VersionTLS12}
	if authority != "" {
		pem, err := os.ReadFile(authority)
		c.RootCAs = x509.NewCertPool()
		if err != nil || !c.RootCAs.AppendCertsFromPEM(pem) {
			r.refuse(name, "it names a file with certificates in PEM")
		}
	}
	if own != "" || key != "" {
		pair, err := tls.LoadX509KeyPair(own, key)
		if err != nil {
			r.refuse(ownName, "it and its CLIENT_KEY name files in PEM that belong together")
		}
		c.Certificates = []tls.Certificate{pair}
	}
	return c
}

// sampler says which traces are recorded. The samplers with parentbased_ do what the caller does who has begun the
// trace, and ask the sampler behind the prefix where Corebot begins it.
func (r *reader) sampler() func(corebot.Trace, [16]byte) bool {
	name := r.oneOf([]string{
		"parentbased_always_on", "always_on", "always_off", "traceidratio", "parentbased_always_off",
		"parentbased_traceidratio",
	}, "OTEL_TRACES_SAMPLER")
	root, parents := strings.CutPrefix(name, "parentbased_")
	choose := func([16]byte) bool { return root == "always_on" }
	if root == "traceidratio" {
		choose = ratio(r.share())
	}
	return func(parent corebot.Trace, id [16]byte) bool {
		if parents && !parent.IsZero() {
			return parent.Sampled
		}
		return choose(id)
	}
}

func (r *reader) share() float64 {
	text, name := r.value("OTEL_TRACES_SAMPLER_ARG")
	if text == "" {
		return 1
	}
	share, err := strconv.ParseFloat(text, 64)
	if err != nil || share < 0 || share > 1 || math.IsNaN(share) {
		r.refuse(name, "it is a share from 0 to 1")
	}
	return share
}

// ratio decides by the id of a trace, so that all programs with one ratio record the same traces.
func ratio(share float64) func([16]byte) bool {
	below := uint64(share * (1 << 63))
	return func(id [16]byte) bool { return binary.BigEndian.Uint64(id[8:])>>1 < below }
}

// resource says which program the spans are of. The own variable of a service's name wins over the list.
func (r *reader) resource(version, instance string) [][2]string {
	name, _ := r.value("OTEL_SERVICE_NAME")
	all, list := r.pairs("OTEL_RESOURCE_ATTRIBUTES")
	set := func(key, value string, wins bool) {
		at := slices.IndexFunc(all, func(p [2]string) bool { return p[0] == key })
		switch {
		case value == "":
		case at < 0:
			all = append(all, [2]string{key, value})
		case wins:
			all[at][1] = value
		}
	}
	set("service.name", name, true)
	set("service.name", "corebot", false)
	set("service.version", version, false)
	set("service.instance.id", instance, false)
	for i, p := range all {
		if len(p[0])+len(p[1]) > maxResource {
			r.refuse(list, fmt.Sprintf("an entry of it has at most %d bytes", maxResource))
		}
		all[i] = [2]string{strings.ToValidUTF8(p[0], ""), strings.ToValidUTF8(p[1], "")}
	}
	return all
}

const maxResource = 1024
