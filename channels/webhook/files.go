package webhook

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"strings"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/channels"
	"github.com/corebot/corebot/internal/listen"
)

// sentFile is a file of a reply as callers see it.
type sentFile struct {
	Name    string `json:"name"`
	Type    string `json:"type"`
	Size    int64  `json:"size"`
	Caption string `json:"caption,omitempty"`
	URL     string `json:"url"`           // a path of this listener; empty: there is nothing to fetch
	Why     string `json:"why,omitempty"` // why there is nothing to fetch
}

// filesOf are the files of a reply.
func (w *Webhook) filesOf(ctx context.Context, k corebot.Key, parts []corebot.Part) (all []sentFile) {
	for _, p := range corebot.Attachments(parts) {
		f := sentFile{Name: p.Name, Type: p.MediaType, Caption: p.Text, Why: "its content is not kept"}
		if p.Hash != "" && w.opts.Files != nil {
			if open, ref, err := w.opts.Files.Open(ctx, k, p.Hash); err == nil {
				_ = open.Close() // it was only looked at
				f.Size, f.URL, f.Why = ref.Size, pathFiles+p.Hash+"?chatId="+url.QueryEscape(k.Chat), ""
			}
		}
		all = append(all, f)
	}
	return all
}

// file serves the bytes of a file to a caller who may read the chat. A browser never shows it as a page of this
// listener.
func (h *handler) file(w http.ResponseWriter, r *http.Request) int {
	q, who, p := h.ask(r, "chatId")
	if p != nil {
		return p.write(w, hasBody(r))
	}
	f, ref, err := h.opts.Files.Open(r.Context(), q.key, strings.TrimPrefix(r.URL.Path, pathFiles))
	if errors.Is(err, corebot.ErrNotFound) {
		return refuse(http.StatusNotFound, "this chat has no such file").write(w, false)
	}
	if err != nil {
		return h.refusalOf(err).write(w, false)
	}
	defer f.Close() //nolint:errcheck // only read
	ctx, end, p := h.wait(r, who, kindPoll)
	if p != nil {
		return p.write(w, false)
	}
	defer end()
	out := &pieces{ResponseWriter: w, ctx: ctx}
	listen.Download{Content: f, Name: ref.Name, Type: ref.MediaType, Hash: ref.Hash}.Send(out, r)
	return out.status
}

var _ channels.Files = (*Webhook)(nil)
