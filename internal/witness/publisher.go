package witness

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/internal/signedpost"
)

// Trail is the audit trail.
type Trail interface {
	Head(ctx context.Context) (corebot.PublishedHead, error)
	// Follows says whether the trail goes on from a head; otherwise the error is a [*corebot.BrokenChain].
	Follows(ctx context.Context, h corebot.PublishedHead) error
}

// Options of a [Publisher]. Every head goes to the log, too.
type Options struct {
	Every   time.Duration // between two heads; 0: none is published
	File    string        // a line each; empty: none
	URL     string        // gets each line by POST; empty: nobody does
	Token   string        // as a bearer token to the URL
	Log     zerolog.Logger
	Metrics prometheus.Registerer
}

// Publisher publishes heads.
type Publisher struct {
	home         string
	trail        Trail
	opts         Options
	mu           sync.Mutex
	last         *corebot.PublishedHead // nil: not read yet
	changed      chan struct{}          // holds one signal that the options have changed
	at, interval prometheus.Gauge
	failed       *prometheus.CounterVec
}

// The steps that can fail, as metrics name them.
const (
	toSign = "sign" // there is no key, or the trail was written anew
	toFile = "file"
	toURL  = "url"
)

// New makes a publisher of a home's trail; it starts nothing.
func New(home string, trail Trail, o Options) (*Publisher, error) {
	p := &Publisher{
		home: home, trail: trail, opts: o, changed: make(chan struct{}, 1),
		at: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "corebot_audit_head_published_timestamp_seconds", Help: "When a head of the audit trail was last " +
				"published everywhere, as unix time; 0: never in this process.",
		}),
		failed: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "corebot_audit_publish_failures_total", Help: "Heads of the audit trail that were not published, " +
				"by step: sign (no key, or the trail was written anew), file, url.",
		}, []string{"step"}),
	}
	p.interval = prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "corebot_audit_publish_interval_seconds", Help: "How often a head of the audit trail is published; " +
			"0: never.",
	})
	p.interval.Set(o.Every.Seconds())
	for _, step := range []string{toSign, toFile, toURL} {
		p.failed.WithLabelValues(step)
	}
	if o.Metrics == nil {
		return p, nil
	}
	for _, c := range []prometheus.Collector{p.at, p.failed, p.interval} {
		if err := o.Metrics.Register(c); err != nil {
			return nil, fmt.Errorf("register the metrics of the audit trail: %w", err)
		}
	}
	return p, nil
}

// Set changes when and where heads are published: Every, File, URL and Token. The next head is published at once.
func (p *Publisher) Set(o Options) {
	p.mu.Lock()
	p.opts.Every, p.opts.File, p.opts.URL, p.opts.Token = o.Every, o.File, o.URL, o.Token
	p.mu.Unlock()
	p.interval.Set(o.Every.Seconds())
	select {
	case p.changed <- struct{}{}:
	default: // it will look
	}
}

func (p *Publisher) every() time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.opts.Every
}

// Run publishes a head at once and then from time to time, until ctx ends.
func (p *Publisher) Run(ctx context.Context) error {
	for {
		var next <-chan time.Time
		if every := p.every(); every > 0 {
			if _, err := p.Publish(ctx); err != nil && ctx.Err() == nil {
				p.opts.Log.Error().Err(err).Str("hint", corebot.HintOf(err)).
					Msg("the head of the audit trail was not published")
			}
			next = time.After(every)
		}
		select {
		case <-next:
		case <-p.changed:
		case <-ctx.Done():
			return nil
		}
	}
}

// Publish signs and publishes the newest head now.
func (p *Publisher) Publish(ctx context.Context) (Line, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	line, head, err := p.sign(ctx)
	if err != nil {
		p.failed.WithLabelValues(toSign).Inc()
		return line, err
	}
	text, err := line.Encode()
	if err != nil {
		return line, fmt.Errorf("encode a head: %w", err)
	}
	p.opts.Log.Info().RawJSON("head", bytes.TrimSpace(text)).Msg("the head of the audit trail is published")
	var errs []error
	if p.opts.File != "" {
		errs = append(errs, p.counted(toFile, appendLine(p.opts.File, text)))
	}
	if p.opts.URL != "" {
		errs = append(errs, p.counted(toURL, p.post(ctx, line, text)))
	}
	if err := errors.Join(errs...); err != nil {
		return line, err
	}
	p.last = &head
	p.at.SetToCurrentTime()
	return line, nil
}

func (p *Publisher) counted(step string, err error) error {
	if err != nil {
		p.failed.WithLabelValues(step).Inc()
	}
	return err
}

// sign makes the line of the newest head. It signs no trail that does not go on from the head before.
func (p *Publisher) sign(ctx context.Context) (line Line, head corebot.PublishedHead, err error) {
	key, made, err := Load(p.home)
	if err != nil {
		return line, head, err
	}
	if made {
		p.opts.Log.Info().Str("key", key.ID).Str("public", filepath.Join(p.home, PublicFile)).
			Msg("a new key signs the heads of the audit trail; keep a copy of the public key elsewhere")
	}
	if head, err = p.trail.Head(ctx); err != nil {
		return line, head, fmt.Errorf("read the head of the audit trail: %w", err)
	}
	head.At = time.Now()
	last, err := p.before()
	if err != nil {
		return line, head, err
	}
	switch {
	case last == nil:
	case last.Database != head.Database:
		p.opts.Log.Warn().Str("before", last.Database).Str("now", head.Database).
			Msg("the audit trail is of another database than the head that was published last")
	default:
		if err := p.trail.Follows(ctx, *last); err != nil {
			return line, head, corebot.WithHint(fmt.Errorf("the trail is not the one that was published, and is not "+
				"signed: %w", err), "`corebot audit verify --heads FILE` says more; docs/runbook.md has what to do")
		}
	}
	return key.Sign(head), head, nil
}

// tail is how much of the end of a file is read for its last head.
const tail = 16 << 10

// before is the head that was published last: by this process, or the last line of the file. Nil: there is none.
func (p *Publisher) before() (*corebot.PublishedHead, error) {
	if p.last != nil || p.opts.File == "" {
		return p.last, nil
	}
	keys, err := ReadKeys(filepath.Join(p.home, PublicFile))
	if err != nil {
		return nil, err
	}
	f, err := os.Open(p.opts.File)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read the published heads: %w", err)
	}
	defer f.Close() //nolint:errcheck // only read
	info, err := f.Stat()
	if err == nil && info.Size() > tail {
		_, err = f.Seek(-tail, io.SeekEnd)
	}
	if err != nil {
		return nil, fmt.Errorf("read the published heads: %w", err)
	}
	read, err := Read(f, keys)
	if err != nil || len(read.Lines) == 0 {
		return nil, err
	}
	head := read.Lines[len(read.Lines)-1].Head()
	p.last = &head // another file does not make the trail another one
	return p.last, nil
}

// appendLine appends a line to a file and syncs it. A last line without an end is ended first.
func appendLine(path string, line []byte) (err error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return corebot.WithHint(fmt.Errorf("append a head: %w", err), "audit.file names the file")
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	info, err := f.Stat()
	if err != nil {
		return fmt.Errorf("append a head: %w", err)
	}
	if !info.Mode().IsRegular() {
		return corebot.WithHint(fmt.Errorf("%w: %s is no plain file", corebot.ErrInvalid, path),
			"audit.file names the file")
	}
	end := []byte{'\n'}
	if info.Size() > 0 {
		if _, err := f.ReadAt(end, info.Size()-1); err != nil {
			return fmt.Errorf("append a head: %w", err)
		}
	}
	if end[0] != '\n' {
		line = append([]byte{'\n'}, line...)
	}
	if _, err := f.Write(line); err != nil {
		return fmt.Errorf("append a head: %w", err)
	}
	if err := f.Sync(); err != nil {
		return fmt.Errorf("sync the published heads: %w", err)
	}
	return nil
}

// post hands a line to the URL. Any answer of 2xx means that it was taken.
func (p *Publisher) post(ctx context.Context, l Line, text []byte) error {
	to, err := signedpost.NewTarget("post a head", p.opts.URL, signedpost.Bearer(p.opts.Token))
	if err != nil {
		return corebot.WithHint(fmt.Errorf("audit.url: %w", err), "audit.url names the receiver")
	}
	defer to.Close()
	if err := to.Post(ctx, strconv.FormatInt(l.Event, 10), text); err != nil {
		return corebot.WithHint(err, "audit.url names the receiver")
	}
	return nil
}
