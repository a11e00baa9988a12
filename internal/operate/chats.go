package operate

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/internal/control"
	"github.com/corebot/corebot/internal/redact"
	"github.com/corebot/corebot/internal/terms"
)

// Chats keeps what is known of conversations.
type Chats interface {
	// Page gives chats behind a cursor, in the order in which they were first seen, and the cursor behind them. An
	// empty channel means all.
	Page(ctx context.Context, channel, after string, limit int) (found []corebot.Chat, next string, err error)
	// Recent is Page in another order: the chat that was used last comes first.
	Recent(ctx context.Context, channel, after string, limit int) (found []corebot.Chat, next string, err error)
	Chat(ctx context.Context, k corebot.Key) (corebot.Chat, error)
	Register(ctx context.Context, k corebot.Key, registered bool, name string) error
	Reset(ctx context.Context, k corebot.Key) error
}

// ChatSettings keeps the settings of conversations; an empty value is the configured default.
type ChatSettings interface {
	SetQueueMode(ctx context.Context, k corebot.Key, mode corebot.QueueMode) error
	SetAccess(ctx context.Context, k corebot.Key, access corebot.ChatAccess) error
	SetModel(ctx context.Context, k corebot.Key, model string) error
	SetThinking(ctx context.Context, k corebot.Key, think corebot.Thinking) error
}

// Sessions makes a new chat of a session, and takes the newest exchanges out of a session.
type Sessions interface {
	// Fork refuses a name that is taken with [corebot.ErrInvalid].
	Fork(ctx context.Context, f corebot.Fork) (corebot.Forked, error)
	// Rewind refuses with [corebot.ErrInvalid] while something waits or runs in the chat; life is 0.
	Rewind(ctx context.Context, k corebot.Key, n int, life int64) (corebot.Rewound, error)
	// Forks are the chats that were forked from a chat, and from its forks.
	Forks(ctx context.Context, k corebot.Key) ([]corebot.Key, error)
}

// Links has a chat resume the conversation of another one.
type Links interface {
	Put(ctx context.Context, from, to corebot.Key) (corebot.Link, error)
	// Unlink ends the links of a chat, and deletes what they have copied. Without any it is [corebot.ErrNotFound].
	Unlink(ctx context.Context, k corebot.Key) ([]corebot.Link, error)
}

// History keeps what was said in conversations.
type History interface {
	Recent(ctx context.Context, k corebot.Key, limit int) ([]corebot.HistoryEntry, error)
	Summary(ctx context.Context, k corebot.Key) (corebot.Summary, error)
	// Before gives what was said before a place, newest first; an empty place is the end.
	Before(ctx context.Context, k corebot.Key, before string, limit int) ([]corebot.Said, error)
	// AllBefore is Before with the calls of tools and their results.
	AllBefore(ctx context.Context, k corebot.Key, before string, limit int) ([]corebot.Said, error)
	// Since gives at most limit entries that were written behind a number, and the number to go on from.
	Since(ctx context.Context, k corebot.Key, number int64, limit int) ([]corebot.Said, int64, error)
}

// Sayings finds what was said in a conversation by words and, where there are vectors, by meaning.
type Sayings interface {
	Search(ctx context.Context, k corebot.Key, q terms.Query, limit int) (found []corebot.HistoryEntry,
		how corebot.Match, err error)
}

// The operations on chats.
var (
	ListChats     = reads("chats.list", (*Service).ListChats)
	FindChat      = reads("chats.find", (*Service).FindChat)
	ShowChat      = reads("chats.show", (*Service).ShowChat)
	ReadHistory   = reads("chats.history", (*Service).ReadHistory)
	SearchHistory = reads("chats.search", (*Service).SearchHistory)
	RegisterChat  = changes("chats.register", (*Service).RegisterChat)
	ResetChat     = changes("chats.reset", (*Service).ResetChat)
	ForkChat      = changes("chats.fork", (*Service).ForkChat)
	RewindChat    = changes("chats.rewind", (*Service).RewindChat)
	LinkChats     = changes("chats.link", (*Service).LinkChats)
	UnlinkChat    = changes("chats.unlink", (*Service).UnlinkChat)
	SetQueueMode  = changes("chats.mode", (*Service).SetQueueMode)
	SetChatAccess = changes("chats.access", (*Service).SetChatAccess)
	SetChatModel  = changes("chats.model", (*Service).SetChatModel)
	SetChatThink  = changes("chats.think", (*Service).SetChatThink)
)

type (
	// ChatsQuery asks for a part of the chats of a channel; an empty channel means all.
	ChatsQuery struct {
		Channel string `json:"channel,omitempty"`
		Recent  bool   `json:"recent,omitempty"` // the chat that was used last comes first
		Part
	}
	// Chat is one row of the list.
	Chat struct {
		Key         string             `json:"key"`
		Channel     string             `json:"channel"`
		ChatID      string             `json:"chatId"`
		DisplayName string             `json:"displayName"`
		Registered  bool               `json:"registered"`
		Session     int64              `json:"session"`
		QueueMode   corebot.QueueMode  `json:"queueMode,omitempty"` // left out: the configured default
		Model       string             `json:"model,omitempty"`     // left out: the configured one
		Think       corebot.Thinking   `json:"think,omitempty"`     // left out: as configured
		Access      corebot.ChatAccess `json:"access,omitempty"`    // left out: by the rule of its channel
		CreatedAt   time.Time          `json:"createdAt"`
		LastUsedAt  time.Time          `json:"lastUsedAt,omitzero"` // in lists: a turn began, or something was said
	}
	// ChatName names a chat by its key, or by a short form of a known one; see [corebot.Named].
	ChatName struct {
		Name string `json:"name"`
	}
	// FoundChat is the chat that a name means.
	FoundChat struct {
		Key corebot.Key `json:"key"`
	}
	// ChatQuery asks for a chat and at most so many entries of its history, the newest.
	ChatQuery struct {
		Key   corebot.Key `json:"key"`
		Limit int         `json:"limit"`
	}
	// HistoryQuery asks for a part of what was said in a chat, newest first.
	HistoryQuery struct {
		Key   corebot.Key `json:"key"`
		Whole bool        `json:"whole,omitempty"` // also calls of tools, without secrets, and their results
		Part
	}
	// SayingsQuery asks for what was said in a chat, in all its sessions.
	SayingsQuery struct {
		Key   corebot.Key `json:"key"`
		Text  string      `json:"text"`
		Limit int         `json:"limit"`
	}
	// FoundSayings are the entries that were found, and how.
	FoundSayings struct {
		Rows    []corebot.HistoryEntry `json:"rows"`
		Whole   bool                   `json:"whole"`             // each has all words of the query
		Meaning bool                   `json:"meaning"`           // by meaning, too, the best first
		Without string                 `json:"without,omitempty"` // why they were not, although vectors are made
	}
	// Conversation is a chat and what of its history is in play.
	Conversation struct {
		Chat
		Summary corebot.Summary        `json:"summary,omitzero"`
		History []corebot.HistoryEntry `json:"history"`
	}
	// ChatChange registers a chat, or begins a new session in it.
	ChatChange struct {
		Key        corebot.Key `json:"key"`
		Registered bool        `json:"registered"`
		Name       string      `json:"name"`
	}
	// Rewinding takes the last exchanges of a chat out of what the model is shown.
	Rewinding struct {
		Key       corebot.Key `json:"key"`
		Exchanges int         `json:"exchanges"`
	}
	// Linking has the chat To resume the conversation of the chat From.
	Linking struct {
		From corebot.Key `json:"from"`
		To   corebot.Key `json:"to"`
	}
	// EndedLinks are links that have ended.
	EndedLinks struct {
		Links []corebot.Link `json:"links"`
	}
	// ModeChange sets the queue mode of a chat; an empty mode is the configured default.
	ModeChange struct {
		Key  corebot.Key       `json:"key"`
		Mode corebot.QueueMode `json:"mode"`
	}
	// AccessChange sets a chat apart from the rule of its channel; with "" no longer.
	AccessChange struct {
		Key    corebot.Key        `json:"key"`
		Access corebot.ChatAccess `json:"access"`
	}
	// ModelChange has a chat's session ask for a model, or with "" for the configured one.
	ModelChange struct {
		Key   corebot.Key `json:"key"`
		Model string      `json:"model"`
	}
	// ThinkChange sets how much models think in a chat's session; an empty level is the configured one.
	ThinkChange struct {
		Key   corebot.Key      `json:"key"`
		Think corebot.Thinking `json:"think"`
	}
)

// ListChats lists the chats that Corebot knows, in the order in which they were first seen, or as they were used.
func (s *Service) ListChats(ctx context.Context, q ChatsQuery) (Page[Chat], error) {
	page := s.stores.Chats.Page
	if q.Recent {
		page = s.stores.Chats.Recent
	}
	found, next, err := page(ctx, q.Channel, q.After, q.size())
	return pageOf(found, next, newChat), err
}

func newChat(c corebot.Chat) Chat {
	return Chat{
		c.Key.String(), c.Key.Channel, c.Key.Chat, c.DisplayName, c.Registered, c.Session, c.QueueMode, c.Model,
		c.Think, c.Access, c.CreatedAt, c.UsedAt,
	}
}

// FindChat finds the chat that a name means. A short form of none is [corebot.ErrNotFound], one of several is
// [corebot.ErrInvalid].
func (s *Service) FindChat(ctx context.Context, n ChatName) (FoundChat, error) {
	var meant []corebot.Key // keys of pages that have a chat of that name
	for after := ""; ; {
		found, next, err := s.stores.Chats.Page(ctx, "", after, MaxRows)
		if err != nil {
			return FoundChat{}, err
		}
		keys := make([]corebot.Key, len(found))
		for i, c := range found {
			keys[i] = c.Key
		}
		if _, err := corebot.Named(n.Name, keys); !errors.Is(err, corebot.ErrNotFound) {
			meant = append(meant, keys...)
		}
		if after = next; after == "" {
			k, err := corebot.Named(n.Name, meant)
			return FoundChat{k}, err
		}
	}
}

// ShowChat gives a chat, its summary and the newest of its history. It takes secrets out of the arguments of tool
// calls, because the history has the arguments as the model wrote them.
func (s *Service) ShowChat(ctx context.Context, q ChatQuery) (c Conversation, err error) {
	chat, err := s.stores.Chats.Chat(ctx, q.Key)
	if err == nil && chat.ID == 0 {
		err = corebot.WithHint(fmt.Errorf("chat %s: %w", q.Key, corebot.ErrNotFound),
			"`corebot chats list` shows the keys")
	}
	if err != nil {
		return c, err
	}
	c.Chat = newChat(chat)
	if c.History, err = s.stores.History.Recent(ctx, q.Key, min(max(q.Limit, 0), MaxRows)); err != nil {
		return c, err
	}
	if c.Summary, err = s.stores.History.Summary(ctx, q.Key); err != nil {
		return c, err
	}
	return c, redactCalls(c.History)
}

// maxSaid bounds a page of what was said: an entry can be as long as a message.
const maxSaid = 100

// ReadHistory gives what was said in a chat, newest first, the words of other sessions included.
func (s *Service) ReadHistory(ctx context.Context, q HistoryQuery) (Page[corebot.Said], error) {
	limit, read := min(q.size(), maxSaid), s.stores.History.Before
	if q.Whole {
		read = s.stores.History.AllBefore
	}
	found, err := read(ctx, q.Key, q.After, limit)
	if err != nil {
		return Page[corebot.Said]{}, err
	}
	entries := make([]corebot.HistoryEntry, len(found)) // which share their calls with what was found
	for i, said := range found {
		entries[i] = said.HistoryEntry
	}
	if err := redactCalls(entries); err != nil {
		return Page[corebot.Said]{}, err
	}
	next := ""
	if len(found) == limit {
		next = found[limit-1].Place
	}
	return pageOf(found, next, func(s corebot.Said) corebot.Said { return s }), nil
}

// SearchHistory finds what was said in a chat.
func (s *Service) SearchHistory(ctx context.Context, q SayingsQuery) (f FoundSayings, err error) {
	query := terms.Parse(q.Text)
	if len(query.Phrases) == 0 {
		return f, fmt.Errorf("%w: %q has no word to look for", corebot.ErrInvalid, clip(q.Text))
	}
	found, how, err := s.stores.Sayings.Search(ctx, q.Key, query, min(Part{Limit: q.Limit}.size(), maxSaid))
	if err != nil {
		return f, err
	}
	f = FoundSayings{append([]corebot.HistoryEntry{}, found...), how.Whole, how.Meaning, how.Without}
	return f, redactCalls(f.Rows)
}

// NewEntries are the entries of a chat that were written behind a number.
type NewEntries struct {
	Rows   []corebot.Said `json:"rows"`
	Number int64          `json:"number"` // to go on from
	// Again says that entries are missing here: so many were written, or some were deleted. Read the chat again.
	Again bool `json:"again,omitempty"`
}

// ReadNewEntries gives what was written in a chat behind a number, in the order of writing.
func (s *Service) ReadNewEntries(ctx context.Context, k corebot.Key, number int64) (n NewEntries, err error) {
	n.Rows, n.Number, err = s.stores.History.Since(ctx, k, number, maxSaid)
	n.Again = n.Number < number || len(n.Rows) == maxSaid
	if err != nil {
		return n, err
	}
	entries := make([]corebot.HistoryEntry, len(n.Rows)) // which share their calls with the rows
	for i, said := range n.Rows {
		entries[i] = said.HistoryEntry
	}
	return n, redactCalls(entries)
}

func redactCalls(history []corebot.HistoryEntry) error {
	r, err := redact.New(nil)
	if err != nil {
		return err
	}
	for _, e := range history {
		for i, c := range e.Calls {
			e.Calls[i].Args = json.RawMessage(r.Args(c.Args, len(c.Args)+maxShownArgs))
		}
	}
	return nil
}

// maxShownArgs is how much longer arguments may become by redacting them.
const maxShownArgs = 1 << 10

// RegisterChat marks a chat as registered, or as no longer registered, and names it for display.
func (s *Service) RegisterChat(ctx context.Context, c ChatChange) (Done, error) {
	return Done{Changed: 1}, s.stores.Chats.Register(ctx, c.Key, c.Registered, c.Name)
}

// ResetChat begins a new session in a chat.
func (s *Service) ResetChat(ctx context.Context, c ChatChange) (Done, error) {
	return Done{Changed: 1}, s.stores.Chats.Reset(ctx, c.Key)
}

// ForkChat makes a new chat with the history of a chat.
func (s *Service) ForkChat(ctx context.Context, f corebot.Fork) (corebot.Forked, error) {
	f.Life = 0
	return s.stores.Sessions.Fork(ctx, f)
}

// RewindChat takes the last exchanges of a chat out of what the model is shown.
func (s *Service) RewindChat(ctx context.Context, r Rewinding) (corebot.Rewound, error) {
	return s.stores.Sessions.Rewind(ctx, r.Key, r.Exchanges, 0)
}

// LinkChats has a chat resume the conversation of another one. The operator stands for both.
func (s *Service) LinkChats(ctx context.Context, l Linking) (corebot.Link, error) {
	return s.stores.Links.Put(ctx, l.From, l.To)
}

// UnlinkChat ends the links of a chat, and deletes what they have copied.
func (s *Service) UnlinkChat(ctx context.Context, c ChatChange) (EndedLinks, error) {
	all, err := s.stores.Links.Unlink(ctx, c.Key)
	return EndedLinks{all}, err
}

// SetQueueMode sets the queue mode of a chat.
func (s *Service) SetQueueMode(ctx context.Context, c ModeChange) (Done, error) {
	return Done{Changed: 1}, s.stores.ChatSettings.SetQueueMode(ctx, c.Key, c.Mode)
}

// SetChatAccess sets who can talk in a chat.
func (s *Service) SetChatAccess(ctx context.Context, c AccessChange) (Done, error) {
	return Done{Changed: 1}, s.stores.ChatSettings.SetAccess(ctx, c.Key, c.Access)
}

// SetChatModel sets the model that a chat's session asks for. A model that the running Corebot has not loaded is
// refused: the chat would get no answer. Without one, the settings say which models there are.
func (s *Service) SetChatModel(ctx context.Context, c ModelChange) (Done, error) {
	if c.Model != "" {
		known, err := s.stores.Agents.Models(ctx, c.Key.Agent)
		if err != nil && !errors.Is(err, corebot.ErrNotFound) { // of an agent that was removed nobody answers
			return Done{}, err
		}
		if len(known) > 0 && !slices.Contains(known, c.Model) {
			return Done{}, corebot.WithHint(fmt.Errorf("%w: no model is called %q", corebot.ErrInvalid, clip(c.Model)),
				"there are "+strings.Join(known, ", ")+"; `corebot config reload` loads a changed list")
		}
	}
	return Done{Changed: 1}, s.stores.ChatSettings.SetModel(ctx, c.Key, c.Model)
}

// SetChatThink sets how much models think in a chat's session.
func (s *Service) SetChatThink(ctx context.Context, c ThinkChange) (Done, error) {
	return Done{Changed: 1}, s.stores.ChatSettings.SetThinking(ctx, c.Key, c.Think)
}

// Forgetter deletes conversations, and rebuilds what is made of those that stay.
type Forgetter interface {
	// Meant names the conversations that a deletion of one means: itself, its threads, its child turns, and what it
	// asked other agents. Errors are those of Forget.
	Meant(ctx context.Context, k corebot.Key) ([]corebot.Key, error)
	// Contents counts what Forget would reach, but for events of the audit trail and pages of the database.
	Contents(ctx context.Context, keys []corebot.Key) (corebot.Forgotten, error)
	// Forget deletes all that is kept of a conversation, and overwrites it in the files of the database. An unknown
	// conversation is [corebot.ErrNotFound], and one in which something waits or runs is [corebot.ErrInvalid].
	Forget(ctx context.Context, k corebot.Key) (corebot.Forgotten, error)
	// Reindex has the search index made anew, and the vectors if asked to. It gives how many entries the index will
	// have.
	Reindex(ctx context.Context, vectors bool) (entries int64, err error)
}

// The operations that delete a conversation, and that make the search index anew.
var (
	DeleteChat = changes("chats.delete", (*Service).DeleteChat)
	Reindex    = changes("db.reindex", (*Service).Reindex)
)

type (
	// Reindexing says what is made anew beside the index of words.
	Reindexing struct {
		Vectors bool `json:"vectors,omitempty"`
	}
	// ChatLoss names the conversation to delete. Dry only says what would be deleted. The events of the audit trail
	// and the pages of the database are counted by a deletion alone.
	ChatLoss struct {
		Key corebot.Key `json:"key"`
		Dry bool        `json:"dry,omitempty"`
	}
	// LostChat is what was deleted, or would be.
	LostChat struct {
		Keys  []string `json:"keys"`
		Forks []string `json:"forks,omitempty"` // chats of their own, with copies of what was said: they stay
		corebot.Forgotten
	}
)

// DeleteChat deletes a conversation. It is given up when its caller goes, or Corebot stops: what it has deleted stays
// deleted, and the next call goes on.
func (s *Service) DeleteChat(ctx context.Context, l ChatLoss) (lost LostChat, err error) {
	ctx, cancel := control.UntilStop(ctx)
	defer cancel()
	keys, err := s.stores.Forgetter.Meant(ctx, l.Key)
	if errors.Is(err, corebot.ErrNotFound) && !l.Dry { // what an earlier deletion has left is overwritten all the same
		_, err = s.stores.Forgetter.Forget(ctx, l.Key)
	}
	if err != nil {
		return lost, err
	}
	for _, k := range keys {
		lost.Keys = append(lost.Keys, k.String())
		forks, err := s.stores.Sessions.Forks(ctx, k)
		if err != nil {
			return lost, err
		}
		for _, fork := range forks {
			lost.Forks = append(lost.Forks, fork.String())
		}
	}
	if l.Dry {
		lost.Forgotten, err = s.stores.Forgetter.Contents(ctx, keys)
	} else {
		defer s.stores.Agents.Renew(l.Key.Agent)
		lost.Forgotten, err = s.stores.Forgetter.Forget(ctx, l.Key)
	}
	return lost, err
}

// Indexed counts the entries of the history that a search index will have.
type Indexed struct {
	Entries int64 `json:"entries"`
}

// Reindex empties the search index. The index is filled again behind the turns; a search meanwhile reads the history
// itself.
func (s *Service) Reindex(ctx context.Context, r Reindexing) (Indexed, error) {
	n, err := s.stores.Forgetter.Reindex(ctx, r.Vectors)
	return Indexed{n}, err
}
