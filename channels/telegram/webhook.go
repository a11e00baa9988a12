package telegram

import (
	"cmp"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/channels"
	"github.com/corebot/corebot/internal/listen"
)

// With a webhook the platform posts each update to a public address, and a proxy there passes it on to the listener of
// the account. An update is answered with 200 after the commit that stored it; the platform posts it again otherwise.
//
// The offset of the polls does not move meanwhile. A failed update comes later than those of other chats behind it, so
// an offset behind the newest update would confirm updates that are not stored. A poll after the webhook gets what was
// never answered, and the ids of the messages tell what is known.
//
// The account asks for one connection. So the updates of a chat come one after the other.

// hook is where the updates of a bot are posted; without a url they are polled.
type hook struct {
	url    string // the public address
	path   string // of it
	host   string // of it
	addr   string // of the listener
	secret string // that the platform sends with each update
	// watch is how often the account looks whether the webhook is still its own
	watch time.Duration
}

// maxHookURL bounds the public address: it is stored with the cursor.
const maxHookURL = 1024

// hookPorts are those to which Telegram itself posts.
var hookPorts = []string{"", "443", "80", "88", "8443"}

// hookOf reads the settings of the webhook.
func hookOf(s Settings) (h hook, err error) {
	if s.Webhook == "" {
		return h, nil
	}
	u, err := url.Parse(s.Webhook)
	own := s.APIURL != standardURL // a server of the operator's own posts to any address
	switch {
	case err != nil, u.Host == "", u.User != nil, u.Fragment != "", strings.ContainsAny(s.Webhook, " \t\r\n"),
		u.Scheme != "https" && !(u.Scheme == "http" && own), len(s.Webhook) > maxHookURL:
		return h, corebot.WithHint(fmt.Errorf("webhook_url %q is no address to which Telegram can post", s.Webhook),
			"write an address such as https://bot.example.org/telegram, or leave it out: then Corebot polls")
	case !own && !slices.Contains(hookPorts, u.Port()):
		return h, corebot.WithHint(fmt.Errorf("webhook_url has the port %s", u.Port()),
			"Telegram posts to the ports 443, 80, 88 and 8443")
	}
	if _, _, err := net.SplitHostPort(s.WebhookAddr); err != nil {
		return h, corebot.WithHint(fmt.Errorf("webhook_addr %q is no address to listen at", s.WebhookAddr),
			"write HOST:PORT, such as 127.0.0.1:8443, and have your proxy pass the webhook on to it")
	}
	mac := hmac.New(sha256.New, []byte(s.Token)) // the secret changes with the token, and nobody has to keep it
	mac.Write([]byte("corebot: the secret of a webhook"))
	return hook{
		url: s.Webhook, path: cmp.Or(u.Path, "/"), host: u.Hostname(), addr: s.WebhookAddr,
		secret: hex.EncodeToString(mac.Sum(nil)), watch: hookWatch,
	}, nil
}

// place is what the cursor of an account says: the offset of the next poll, and the webhooks that this account has set
// or is about to set. A webhook that is not among them is another program's.
type place struct {
	offset string
	hooks  []string
}

func placeOf(position string) place {
	offset, hooks, _ := strings.Cut(position, " ")
	return place{offset, strings.Fields(hooks)}
}

func (p place) String() string { return strings.Join(append([]string{p.offset}, p.hooks...), " ") }

// keep stores the webhooks of an account.
func (p place) keep(ctx context.Context, door channels.Door, c corebot.Cursor, hooks ...string) (corebot.Cursor,
	error,
) {
	if slices.Equal(p.hooks, hooks) {
		return c, nil
	}
	p.hooks = hooks
	taken, err := door.AcceptBatch(ctx, nil, c.To(p.String()))
	if err != nil {
		return c, fmt.Errorf("store which webhook is set: %w", err)
	}
	return taken.Cursor, nil
}

type webhookInfo struct {
	URL       string `json:"url"`
	Waiting   int    `json:"pending_update_count"`
	ErrorDate int64  `json:"last_error_date"`
	Error     string `json:"last_error_message"`
}

// String says how the deliveries go.
func (i webhookInfo) String() string {
	says := fmt.Sprintf("%d updates wait", i.Waiting)
	if i.Error != "" {
		says += fmt.Sprintf("; the last delivery that failed, %s: %s",
			time.Unix(i.ErrorDate, 0).UTC().Format(time.DateTime+" MST"), corebot.Plainly(i.Error))
	}
	return says
}

func (c *client) webhook(ctx context.Context) (webhookInfo, error) {
	info, err := call[webhookInfo](ctx, c, "getWebhookInfo", nil)
	if err != nil {
		return info, fmt.Errorf("ask Telegram for the webhook: %w", err)
	}
	return info, nil
}

// unhook ends a webhook of this account, before the account polls. The polls bring what the webhook
// had not delivered.
func (c *Channel) unhook(ctx context.Context, door channels.Door, cursor corebot.Cursor) (corebot.Cursor, error) {
	p := placeOf(cursor.Position)
	if len(p.hooks) == 0 {
		return cursor, nil
	}
	info, err := c.client.webhook(ctx)
	if err != nil {
		return cursor, err
	}
	if slices.Contains(p.hooks, info.URL) {
		if _, err := call[bool](ctx, &c.client, "deleteWebhook", nil); err != nil {
			return cursor, fmt.Errorf("end the webhook: %w", err)
		}
	}
	return p.keep(ctx, door, cursor)
}

// serve takes in what the platform posts, until ctx ends.
func (c *Channel) serve(ctx context.Context, door channels.Door, me bot, cursor corebot.Cursor) error {
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", c.hook.addr)
	if err != nil {
		return corebot.WithHint(fmt.Errorf("listen for the webhook of %s: %w", c.site.Account, err),
			fmt.Sprintf("set channels.%s.%s.webhook_addr to an address that is free", c.site.Kind, c.site.Name))
	}
	ctx, end := context.WithCancelCause(ctx)
	defer end(nil)
	p := &postbox{
		Channel: c, ctx: ctx, end: end, door: door, me: me, cursor: cursor, turn: make(chan struct{}, 1),
	}
	if p.pages, err = listen.NewPages(l, []string{c.hook.host}); err != nil {
		return errors.Join(err, l.Close())
	}
	server := &http.Server{
		Handler: p, ReadHeaderTimeout: hookHeader, ReadTimeout: hookRead, WriteTimeout: hookWrite,
		IdleTimeout: hookIdle, MaxHeaderBytes: 16 << 10, ErrorLog: log.New(c.site.Log, "", 0),
	}
	served := make(chan struct{})
	go func() {
		defer close(served)
		end(fmt.Errorf("serve the webhook: %w", server.Serve(listen.NewCapped(l, hookConnections, nil))))
	}()
	err = p.attend(ctx)
	end(err)
	grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), hookDrain)
	defer cancel()
	_ = server.Shutdown(grace) // the updates under way end with ctx
	_ = server.Close()         // whoever is still sending one posts it again
	<-served
	return err
}

// Limits of the listener.
const (
	hookHeader      = 5 * time.Second
	hookRead        = 30 * time.Second
	hookWrite       = 3 * time.Minute // beyond the time that the files of an update can take
	hookIdle        = 2 * time.Minute
	hookDrain       = 2 * time.Second
	hookConnections = 64

	hookWatch = 5 * time.Minute

	maxUpdate = 4 << 20 // bytes of an update; Telegram's are far below
)

// secretHeader is where the platform sends the secret.
const secretHeader = "X-Telegram-Bot-Api-Secret-Token"

var (
	errForeignWebhook = corebot.WithHint(
		errors.New("another program receives for this bot: it has set a webhook of its own"),
		"end that program, then remove its webhook: open https://api.telegram.org/botTOKEN/deleteWebhook")
	errWebhookGone = corebot.WithHint(
		errors.New("the webhook was taken away: another program has removed or replaced it"),
		"give each program a bot of its own; Corebot sets the webhook again")
)

// postbox takes in the updates that are posted in one run.
type postbox struct {
	*Channel
	ctx   context.Context
	end   context.CancelCauseFunc // ends the run with an error
	door  channels.Door
	me    bot
	pages listen.Pages

	turn   chan struct{} // holds one value while an update is taken in: the cursor is of one at a time
	cursor corebot.Cursor
}

// attend sets the webhook, and looks after it until ctx ends.
func (p *postbox) attend(ctx context.Context) error {
	info, err := p.set(ctx)
	if err != nil {
		return err
	}
	p.site.Log.Info().Str("addr", p.hook.addr).Str("url", p.hook.url).Stringer("state", info).
		Msg("Telegram posts to the webhook")
	told := info.ErrorDate
	for tick := time.NewTicker(p.hook.watch); ; {
		select {
		case <-ctx.Done():
			tick.Stop()
			return context.Cause(ctx)
		case <-tick.C:
		}
		if info, err = p.client.webhook(ctx); err != nil {
			return err
		}
		if info.URL != p.hook.url {
			return errWebhookGone
		}
		p.door.Alive()
		if info.ErrorDate > told {
			told = info.ErrorDate
			p.site.Log.Warn().Stringer("state", info).Msg("Telegram could not post an update, and tries again")
		}
	}
}

// set has the platform post to the webhook. To set it again has the platform try at once what waits. The cursor names
// the webhook first: after a crash in between it is known as the account's own.
func (p *postbox) set(ctx context.Context) (webhookInfo, error) {
	info, err := p.client.webhook(ctx)
	if err != nil {
		return info, err
	}
	if err := p.claim(ctx, info.URL); err != nil {
		return info, err
	}
	_, err = call[bool](ctx, &p.client, "setWebhook", map[string]any{
		"url": p.hook.url, "secret_token": p.hook.secret, "max_connections": 1, "allowed_updates": wanted,
	})
	if err != nil {
		return info, fmt.Errorf("set the webhook: %w", err)
	}
	p.door.Alive()
	return info, nil
}

// claim stores which webhooks are Corebot's own, before one is set. A webhook of another program is an
// [errForeignWebhook].
func (p *postbox) claim(ctx context.Context, set string) (err error) {
	select { // an earlier webhook of the same address can be posted to already
	case p.turn <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	defer func() { <-p.turn }()
	now, hooks := placeOf(p.cursor.Position), []string{p.hook.url}
	switch {
	case set == "" || set == p.hook.url:
	case !slices.Contains(now.hooks, set):
		return errForeignWebhook
	default:
		hooks = append(hooks, set)
	}
	p.cursor, err = now.keep(ctx, p.door, p.cursor, hooks...)
	return err
}

// ServeHTTP implements [http.Handler]. Before the secret is known to be right nothing of the body is read.
func (p *postbox) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("X-Content-Type-Options", "nosniff")
	sent := r.Header.Values(secretHeader)
	status, why := p.pages.Refuse(r)
	switch {
	case status != 0:
	case r.URL.Path != p.hook.path:
		status, why = http.StatusNotFound, "nothing is here"
	case r.Method != http.MethodPost:
		w.Header().Set("Allow", http.MethodPost)
		status, why = http.StatusMethodNotAllowed, "updates are posted"
	case len(sent) != 1 || !hmac.Equal([]byte(sent[0]), []byte(p.hook.secret)):
		status, why = http.StatusUnauthorized, "the secret is not that of the webhook"
	}
	if status != 0 {
		w.Header().Set("Connection", "close") // the rest of the body is not read
		http.Error(w, why, status)
		return
	}
	select {
	case p.turn <- struct{}{}:
		defer func() { <-p.turn }()
	case <-r.Context().Done():
		return
	case <-p.ctx.Done():
		http.Error(w, "Corebot ends", http.StatusServiceUnavailable)
		return
	}
	p.take(w, r)
}

// take answers one update. An update that cannot be read is left out, as a poll leaves it out.
func (p *postbox) take(w http.ResponseWriter, r *http.Request) {
	raw, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxUpdate))
	var u update
	if tooLarge := (*http.MaxBytesError)(nil); errors.As(err, &tooLarge) {
		p.site.Log.Warn().Int("limit", maxUpdate).Msg("an update is too large, and is left out")
		return // which answers 200
	}
	if err == nil {
		err = json.Unmarshal(raw, &u)
	}
	if err != nil {
		http.Error(w, "this is no update", http.StatusBadRequest)
		return
	}
	// The platform can hang up: what it has posted is stored all the same.
	batch, err := p.accept(p.ctx, p.door, p.me, []update{u}, p.cursor, p.cursor.Position)
	if busy := (*corebot.Busy)(nil); errors.As(err, &busy) {
		p.site.Log.Warn().Err(err).Msg("no room for an update; Telegram posts it again")
		w.Header().Set("Retry-After", fmt.Sprint(int(max(busy.RetryAfter, time.Second)/time.Second)))
		http.Error(w, "there is no room now", http.StatusServiceUnavailable)
		return
	}
	if err != nil {
		http.Error(w, "the update was not stored", http.StatusServiceUnavailable)
		p.end(err)
		return
	}
	p.cursor = batch.Cursor
	w.Header().Set("Content-Type", "application/json")
	for at, query := range batch.presses { // the answer to the update is a request to the platform
		args := pressed(query, batch.Messages[at].Err)
		args["method"] = "answerCallbackQuery"
		_ = json.NewEncoder(w).Encode(args) // whoever does not read it presses again
	}
}
