package corebot

import (
	"crypto/sha256"
	"encoding/base32"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// Principal is who acts: the immutable id that a channel gives a sender, within one account of one channel. A name that
// a person chooses is for display only and never part of a principal. The zero ID is a sender that the channel could
// not name; such a sender can hold no grant.
type Principal struct {
	Channel string `json:"channel"`
	Account string `json:"account"`
	ID      string `json:"senderId"`
}

// String spells a principal as channel:account:id, escaped as in [Key.String].
func (p Principal) String() string {
	var b strings.Builder
	b.Grow(len(p.Channel) + len(p.Account) + len(p.ID) + 2)
	escapeField(&b, p.Channel)
	b.WriteByte(':')
	escapeField(&b, p.Account)
	b.WriteByte(':')
	escapeField(&b, p.ID)
	return b.String()
}

// The channel and the account of every terminal of this machine.
const (
	TerminalChannel = "cli"
	TerminalAccount = "local"
)

// ConsoleChannel is the channel of the pages in a browser. Its account is [TerminalAccount]: the console is of this
// machine, too.
const ConsoleChannel = "console"

// OwnersChannel names the channels on which only the owner of the home writes and reads, such as the terminal, with a
// comma between two. Empty: there is none.
type OwnersChannel string

// Is says whether a channel is the owner's.
func (o OwnersChannel) Is(channel string) bool {
	for name := range strings.SplitSeq(string(o), ",") {
		if name != "" && name == channel {
			return true
		}
	}
	return false
}

// AtTerminal is the principal of a user of this machine at its terminal.
func AtTerminal(uid int) Principal {
	return Principal{Channel: TerminalChannel, Account: TerminalAccount, ID: strconv.Itoa(uid)}
}

// AtConsole is the same user in the console, to which only the owner of the home can log in.
func (p Principal) AtConsole() Principal {
	p.Channel = ConsoleChannel
	return p
}

// RuleHomeOwner is the rule by which the owner of the home is admin at its terminal and console. The kernel says who
// owns the home directory, and no grant is stored. The rule stands in the audit and in the list of grants, and never
// changes.
const RuleHomeOwner = "home-owner"

// Label is a short name of a principal that nobody chose. It never changes and differs from everybody else's. It tells
// people apart who share a display name. A principal without an id has no label, because all unnamed senders share the
// empty id.
func (p Principal) Label() string {
	if p.ID == "" {
		return ""
	}
	sum := sha256.Sum256([]byte(p.String()))
	return "u-" + labels.EncodeToString(sum[:(labelLetters*5+7)/8])[:labelLetters]
}

// labels is the standard encoding, in small letters.
var labels = base32.NewEncoding("abcdefghijklmnopqrstuvwxyz234567")

// labelLetters are letters of five bits each: to find an id with the label of another takes some 2^50 attempts.
const labelLetters = 10

// ParsePrincipal reads what [Principal.String] writes, and nothing else.
func ParsePrincipal(s string) (Principal, error) {
	parts := strings.Split(s, ":")
	if len(parts) != 3 {
		return Principal{}, fmt.Errorf("%w: principal %q: want channel:account:sender", ErrInvalid, s)
	}
	var f [3]string
	for i, part := range parts {
		v, err := unescapeField(part)
		if err != nil {
			return Principal{}, fmt.Errorf("%w: principal %q: %v", ErrInvalid, s, err)
		}
		f[i] = v
	}
	p := Principal{Channel: f[0], Account: f[1], ID: f[2]}
	if p.String() != s {
		return Principal{}, fmt.Errorf("%w: principal %q is not spelled as %q", ErrInvalid, s, p)
	}
	return p, nil
}

// ReadPrincipal reads a principal as a person writes it. It takes what [ParsePrincipal] takes, and the id as the
// platform shows it, such as mail:main:ann@example.org and matrix:main:@ann:example.org.
func ReadPrincipal(s string) (Principal, error) {
	p, err := ParsePrincipal(s)
	parts := strings.SplitN(s, ":", 3)
	if err == nil || len(parts) < 3 || strings.ContainsFunc(parts[2], oddInID) ||
		strings.Contains(parts[2], ":") && !strings.HasPrefix(parts[2], "@") { // the key of a chat has more fields, too
		return p, err
	}
	p = Principal{Channel: parts[0], Account: parts[1], ID: parts[2]}
	return p, p.Validate()
}

// oddInID says whether a character is in no id that a platform shows. A pattern or a name is no id.
func oddInID(r rune) bool {
	letter := r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9'
	return !letter && !strings.ContainsRune("@.:_-+=/", r)
}

// Validate refuses a principal that can hold no grant: the id is empty, or a name cannot be stored or shown.
func (p Principal) Validate() error {
	if p.ID == "" {
		return fmt.Errorf("%w: senderId is empty", ErrInvalid)
	}
	for _, name := range []string{p.ID, p.Channel, p.Account} {
		if err := validateName(name); err != nil {
			return fmt.Errorf("%w: senderId %v", ErrInvalid, err)
		}
	}
	return nil
}

// Role says what a principal may do. There are two roles.
type Role string

const (
	RoleNormal Role = "normal"
	RoleAdmin  Role = "admin"
)

// ParseRole refuses every other word: an unknown role is never taken for the lesser role.
func ParseRole(s string) (Role, error) {
	switch r := Role(s); r {
	case RoleNormal, RoleAdmin:
		return r, nil
	}
	return "", fmt.Errorf("%w: role %q: want normal or admin", ErrInvalid, s)
}

// Grant gives a principal a role in one chat, or everywhere if Chat is zero.
type Grant struct {
	Principal Principal `json:"principal"`
	Role      Role      `json:"role"`
	Chat      Key       `json:"chat,omitzero"`
	By        string    `json:"by"` // a principal's spelling, or "operator"
	AtMS      int64     `json:"at"`
}

// Allowlist lists who may talk on a channel. It is immutable. The zero Allowlist lists nobody.
type Allowlist struct {
	everybody  bool
	principals map[Principal]bool
	chats      map[Key]bool
}

// ParseAllowlist reads the list of a channel. An entry is one of three: "*" for everybody, a sender as
// [Principal.String] spells him, or a chat as [Key.String] spells it. A chat includes its threads. ParseAllowlist
// refuses an entry that can never match: an entry of another channel, or a sender without an id.
func ParseAllowlist(channel string, entries []string) (Allowlist, error) {
	l := Allowlist{principals: map[Principal]bool{}, chats: map[Key]bool{}}
	for _, entry := range entries {
		if err := l.add(channel, entry); err != nil {
			return Allowlist{}, WithHint(fmt.Errorf("allowlist entry %q: %w", entry, err),
				fmt.Sprintf(
					`write "*" for everybody, a sender like %s::alice, or a chat like %s:%s::family, as "corebot `+
						`audit" and "corebot chats list" show them`, channel, DefaultAgent, channel))
		}
	}
	return l, nil
}

func (l *Allowlist) add(channel, entry string) error {
	if entry == "*" {
		l.everybody = true
		return nil
	}
	of := ""
	if p, err := ReadPrincipal(entry); err == nil {
		if err := p.Validate(); err != nil {
			return err
		}
		l.principals[p], of = true, p.Channel
	} else {
		k, err := ParseKey(entry)
		if err != nil {
			return fmt.Errorf("%w: it is neither a sender nor a chat", ErrInvalid)
		}
		l.chats[k], of = true, k.Channel
	}
	if of != channel {
		return fmt.Errorf("%w: it is of the channel %q", ErrInvalid, of)
	}
	return nil
}

// Names says whether the list has the sender, the chat of the sender, or everybody. A sender without an id is never
// listed himself, because nothing tells such senders apart.
func (l Allowlist) Names(p Principal, k Key) bool {
	chat := k
	chat.Thread = ""
	return l.everybody || p.ID != "" && l.principals[p] || l.chats[k] || l.chats[chat]
}

// PairingState says what became of a sender who may talk only after an admin has let him in. The values are stored;
// they never change.
type PairingState string

const (
	PairingOpen   PairingState = "open" // the sender has a code, and waits for a decision
	PairingPaired PairingState = "paired"
	PairingDenied PairingState = "denied"
)

// Bounds of pairing. An account has MaxOpenPairings codes at once, so a flood of strangers makes no list grow. After
// MaxPairingFailures wrong codes within PairingTime, no chat can decide about a code until that time is over.
const (
	MaxOpenPairings    = 3
	MaxPairingFailures = 10
	PairingTime        = time.Hour // a code is good for so long
	pairingLetters     = 8
)

// Pairing is a sender who asked to talk on an account whose access is "pairing".
type Pairing struct {
	Principal Principal    `json:"principal"`
	Name      string       `json:"name,omitempty"` // display only: the sender chose it
	Code      string       `json:"code"`
	State     PairingState `json:"state"`
	Chat      Key          `json:"chat"` // where the sender was told the code
	AskedAt   time.Time    `json:"askedAt"`
	ExpiresAt time.Time    `json:"expiresAt"`
	By        string       `json:"by,omitempty"` // who decided: a principal's spelling, or "operator"
	DecidedAt time.Time    `json:"decidedAt,omitzero"`
}

// pairingAlphabet has no letter that people take for another one: 32 letters are 40 bits in a code.
const pairingAlphabet = "ABCDEFGHJKLMNPQRSTUVWXYZ23456789"

// PairingCode makes a code of random bytes.
func PairingCode(random [pairingLetters]byte) string {
	code := make([]byte, pairingLetters)
	for i, b := range random {
		code[i] = pairingAlphabet[int(b)%len(pairingAlphabet)]
	}
	return string(code)
}

// ParsePairingCode reads a code as people write it: in any case.
func ParsePairingCode(s string) (string, error) {
	code := strings.ToUpper(s)
	other := func(r rune) bool { return !strings.ContainsRune(pairingAlphabet, r) }
	if len(code) != pairingLetters || strings.ContainsFunc(code, other) {
		return "", WithHint(fmt.Errorf("%w: a code has %d letters and digits", ErrInvalid, pairingLetters),
			"`corebot pair list` shows the codes that are open")
	}
	return code, nil
}

// Scope is what a token of the HTTP API lets its holder do. The values are stored; they never change.
type Scope string

const (
	ScopeRead    Scope = "read"    // look at everything that the operator can look at
	ScopeOperate Scope = "operate" // change what the operator can change by commands; it reads, too
	ScopeSend    Scope = "send"    // send messages as one principal into some chats, and read what is said there
)

// ParseScope reads the name of a scope.
func ParseScope(s string) (Scope, error) {
	switch scope := Scope(s); scope {
	case ScopeRead, ScopeOperate, ScopeSend:
		return scope, nil
	}
	return "", fmt.Errorf("%w: there is no scope %q; the scopes are %s, %s and %s", ErrInvalid, s, ScopeRead,
		ScopeOperate, ScopeSend)
}

// Bounds of tokens.
const (
	MaxTokens     = 100 // in force at once
	MaxTokenName  = 60  // characters
	MaxTokenChats = 100 // of one token
)

// APIChannel is the channel of programs that send messages over the HTTP API. A token with [ScopeSend] has a principal
// there.
const APIChannel = "api"

// Token lets a program use the HTTP API. Its secret is shown once, when it is made. Corebot stores a digest of it.
type Token struct {
	ID        int64     `json:"id"`
	Name      string    `json:"name"` // of those in force, no two have the same
	Scopes    []Scope   `json:"scopes"`
	Sender    string    `json:"sender,omitempty"` // with [ScopeSend]: the id of its principal on [APIChannel]
	Chats     []string  `json:"chats,omitempty"`  // with [ScopeSend]: where it may talk; "*" is all of the channel
	CreatedAt time.Time `json:"createdAt"`
	CreatedBy string    `json:"createdBy"` // a principal's spelling, or "operator"
	ExpiresAt time.Time `json:"expiresAt,omitzero"`
	UsedAt    time.Time `json:"usedAt,omitzero"` // to the minute; zero: never
	RevokedAt time.Time `json:"revokedAt,omitzero"`
}

// Validate refuses a name or scopes that no token can have.
func (t Token) Validate() error {
	plain := func(r rune) bool { return !unicode.IsPrint(r) }
	switch {
	case t.Name == "" || utf8.RuneCountInString(t.Name) > MaxTokenName || strings.ContainsFunc(t.Name, plain):
		return fmt.Errorf("%w: a token's name has 1 to %d printable characters", ErrInvalid, MaxTokenName)
	case len(t.Scopes) == 0:
		return WithHint(fmt.Errorf("%w: a token without a scope can do nothing", ErrInvalid),
			"the scopes are read, operate and send")
	}
	for _, s := range t.Scopes {
		if _, err := ParseScope(string(s)); err != nil {
			return err
		}
	}
	return t.validateSender()
}

// validateSender: a token that sends has a principal that can hold grants. Another token has neither principal nor
// chats.
func (t Token) validateSender() error {
	if !t.Has(ScopeSend) {
		if t.Sender != "" || len(t.Chats) > 0 {
			return WithHint(fmt.Errorf("%w: a token without the scope send has no principal and no chats", ErrInvalid),
				"add --scope send")
		}
		return nil
	}
	if err := t.SendsAs().Validate(); err != nil {
		return WithHint(fmt.Errorf("the principal of a token that sends: %w", err),
			"name it: --as api::NAME")
	}
	if len(t.Chats) > MaxTokenChats {
		return fmt.Errorf("%w: a token names at most %d chats", ErrInvalid, MaxTokenChats)
	}
	for _, chat := range t.Chats {
		if err := (Key{Agent: DefaultAgent, Channel: APIChannel, Chat: chat}).Validate(); err != nil {
			return fmt.Errorf("a chat of the token: %w", err)
		}
	}
	return nil
}

// SendsAs is the sender of the token's messages.
func (t Token) SendsAs() Principal { return Principal{Channel: APIChannel, ID: t.Sender} }

// MaySend says whether the token may talk in a chat of [APIChannel].
func (t Token) MaySend(chat string) bool {
	return t.Has(ScopeSend) && (slices.Contains(t.Chats, chat) || slices.Contains(t.Chats, "*"))
}

// MayRead says whether the token may read what is said in a chat: in all of them, or where it may talk.
func (t Token) MayRead(k Key) bool {
	return t.Has(ScopeRead) || k.Channel == APIChannel && k.Account == "" && t.MaySend(k.Chat)
}

// InForce says whether the token opens anything at a moment.
func (t Token) InForce(now time.Time) bool {
	return t.RevokedAt.IsZero() && (t.ExpiresAt.IsZero() || t.ExpiresAt.After(now))
}

// Has says whether the token has a scope. A token that operates can also read.
func (t Token) Has(s Scope) bool {
	return slices.Contains(t.Scopes, s) || s == ScopeRead && slices.Contains(t.Scopes, ScopeOperate)
}

// Principal is the token as an actor of the audit trail. It has no role, and no message comes from it: those come from
// [Token.SendsAs].
func (t Token) Principal() Principal {
	return Principal{Channel: "token", ID: strconv.FormatInt(t.ID, 10)}
}

// Bounds of the changes that programs make under keys of their own.
const (
	MaxKeyedChanges = 1000     // of one token in a day
	MaxKeptAnswer   = 16 << 10 // bytes of an answer that is kept
)

// KeyedChange is a change that a program asks for under an idempotency key.
type KeyedChange struct {
	Token int64
	Key   [32]byte // SHA-256 over the token and its key
	Call  [32]byte // SHA-256 over what is asked for
}

// KeptAnswer is what a program was answered.
type KeptAnswer struct {
	Status int
	Body   []byte
}

// Bounds of the logins to the console.
const (
	ConsoleLinkTime    = 10 * time.Minute    // a login address is good for so long, and once
	ConsoleSessionTime = 30 * 24 * time.Hour // a browser stays logged in for so long
	MaxConsoleLinks    = 10                  // that nobody has used; of more, the oldest ends
	MaxConsoleSessions = 20                  // in force; of more, the least recently used ends
)

// ConsoleSession is a browser that is logged in to the console. Corebot stores a digest of its secret.
type ConsoleSession struct {
	ID        int64     `json:"id"`
	Browser   string    `json:"browser,omitempty"` // what it says of itself; display only
	CreatedAt time.Time `json:"createdAt"`
	ExpiresAt time.Time `json:"expiresAt"`
	UsedAt    time.Time `json:"usedAt"` // to the minute
	RevokedAt time.Time `json:"revokedAt,omitzero"`
}

// InForce says whether the session opens anything at a moment.
func (s ConsoleSession) InForce(now time.Time) bool {
	return s.RevokedAt.IsZero() && s.ExpiresAt.After(now)
}
