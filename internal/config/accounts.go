package config

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"
	"unicode"
	"unique"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/internal/sorted"
)

// Network is a kind of channel whose accounts have settings of their own, under channels.KIND.ACCOUNT. Standard is a
// struct of the network's package. Its fields and tags describe the settings of an account, as those of [Config] do.
// Its values are the defaults. A text with the tag secret:"yes" can be a reference. If the struct has a method
// Validate() error, it is asked last.
type Network struct {
	Kind       string
	Standard   any
	Redelivers time.Duration // how long after it was given first the network may give a message again; 0: never
}

// Common are the settings that an account of any network has.
type Common struct {
	Rule      string       `mapstructure:"access" oneof:"open,registered,allowlist,pairing"`
	Allowlist List[string] `mapstructure:"allowlist"`
	Groups    string       `mapstructure:"groups" oneof:"mention,all,off"`
}

// Access says who may talk.
func (c Common) Access() Access { return Access{c.Rule, c.Allowlist} }

func standardCommon() Common { return Common{Rule: "allowlist", Groups: "mention"} }

// Account is the settings of one account of a network.
type Account struct {
	Kind, Name string
	Common     Common
	settings   json.RawMessage
}

// Decode fills a pointer to a struct of the type of [Network.Standard].
func (a Account) Decode(into any) error { return json.Unmarshal(a.settings, into) }

// Accounts are the accounts of all networks, by kind and name. The zero value is none. Two of them can be compared with
// ==. Like the secrets in them, they print nothing of themselves.
type Accounts struct {
	text unique.Handle[string] // as JSON of storedAccount
}

type storedAccount struct {
	Kind, Name, Rule, Groups string
	Allowlist, Secrets       []string
	Settings                 json.RawMessage
}

func (a Accounts) stored() (all []storedAccount) {
	if a == (Accounts{}) {
		return nil
	}
	if err := json.Unmarshal([]byte(a.text.Value()), &all); err != nil {
		panic(err) // newAccounts has written it
	}
	return all
}

func newAccounts(all []storedAccount) (Accounts, error) {
	if len(all) == 0 {
		return Accounts{}, nil
	}
	text, err := json.Marshal(all)
	return Accounts{unique.Make(string(text))}, err
}

// List gives the accounts.
func (a Accounts) List() (all []Account) {
	for _, s := range a.stored() {
		all = append(all, s.account())
	}
	return all
}

func (s storedAccount) account() Account {
	return Account{
		Kind: s.Kind, Name: s.Name, settings: s.Settings,
		Common: Common{Rule: s.Rule, Allowlist: NewList(s.Allowlist...), Groups: s.Groups},
	}
}

func (a Accounts) secrets() (all []string) {
	for _, s := range a.stored() {
		all = append(all, s.Secrets...)
	}
	return all
}

// changed lists the accounts that differ, as keys.
func (a Accounts) changed(other Accounts) []string {
	if a == other {
		return nil
	}
	spelt := func(all []storedAccount) map[string]string {
		out := map[string]string{}
		for _, s := range all {
			text, _ := json.Marshal(s) // it was JSON before
			out[accountKey(s.Kind, s.Name)] = string(text)
		}
		return out
	}
	was, now := spelt(a.stored()), spelt(other.stored())
	both := maps.Clone(was)
	maps.Copy(both, now)
	return slices.DeleteFunc(slices.Sorted(maps.Keys(both)), func(key string) bool { return was[key] == now[key] })
}

func accountKey(kind, name string) string { return "channels." + kind + "." + name }

// draft is an account as a file has it, before its secrets are looked up.
type draft struct {
	network Network
	name    string
	common  Common
	own     reflect.Value // a copy of the network's struct
	set     map[string]bool
	from    origin
}

func (d draft) key() string { return accountKey(d.network.Kind, d.name) }

func (n Network) leaves() []leaf { return entryLeaves(n.Standard) }

func commonLeaves() []leaf { return entryLeaves(standardCommon()) }

// isNetwork finds the network whose accounts are under a key.
func (s *settings) isNetwork(key string) (n Network, is bool) {
	kind, under := strings.CutPrefix(key, "channels.")
	at := slices.IndexFunc(s.networks, func(n Network) bool { return n.Kind == kind })
	if !under || at < 0 {
		return n, false
	}
	return s.networks[at], true
}

// mergeAccounts reads the accounts of a network from a file.
func (s *settings) mergeAccounts(path, key string, n Network, value any) error {
	accounts, is := asSection(value)
	if !is && value != nil {
		return corebot.WithHint(fmt.Errorf("%s: %q has a section for each account", path, key),
			fmt.Sprintf("put the settings below the name of an account, such as %q", key+".main"))
	}
	seen := map[string]bool{}
	for _, spelt := range slices.Sorted(maps.Keys(accounts)) {
		name := strings.ToLower(spelt)
		where := fmt.Sprintf("%s: %s.%s", path, key, name)
		switch {
		case !agentID().MatchString(name):
			return corebot.WithHint(fmt.Errorf("%s: %q is not the name of an account", path, key+"."+spelt),
				"write lower-case letters, digits and -, at most 32, such as "+key+".main")
		case seen[name]:
			return corebot.WithHint(fmt.Errorf("%s is there twice", where), "keep one of them")
		}
		seen[name] = true
		d := draft{network: n, name: name, common: standardCommon(), from: origin{FromFile, path}}
		if err := d.read(where, accounts[spelt]); err != nil {
			return err
		}
		s.drafts = append(s.drafts, d)
	}
	return nil
}

// hintOfSection says what mends an account that is a value. Most often the name of the account was left out.
func (d *draft) hintOfSection() string {
	if byKey(commonLeaves())[d.name].key == "" && byKey(d.network.leaves())[d.name].key == "" {
		return "put its settings below it"
	}
	return fmt.Sprintf("the settings of a network stand below the name of an account, such as %q",
		"channels."+d.network.Kind+".main."+d.name)
}

// read reads one account. An account without a value has the defaults.
func (d *draft) read(where string, raw any) error {
	tree, is := asSection(raw)
	if !is && raw != nil {
		return corebot.WithHint(fmt.Errorf("%s is not a section", where), d.hintOfSection())
	}
	common, own := byKey(commonLeaves()), byKey(d.network.leaves())
	shared, rest := map[string]any{}, map[string]any{}
	known := slices.Sorted(maps.Keys(own))
	known = append(known, slices.Sorted(maps.Keys(common))...)
	for name, value := range tree {
		key := strings.ToLower(name)
		_, isCommon := common[key]
		_, isOwn := own[key]
		switch {
		case isCommon:
			shared[name] = value
		case isOwn || isSectionOf(own, key):
			rest[name] = value
		default:
			return corebot.WithHint(fmt.Errorf("%s: unknown key %q", where, key), hintOfEntry(key, known))
		}
	}
	d.own = reflect.New(reflect.TypeOf(d.network.Standard)).Elem()
	d.own.Set(reflect.ValueOf(d.network.Standard))
	d.set = map[string]bool{}
	return cmp.Or(readLeaves(where, "", shared, common, d.set, reflect.ValueOf(&d.common).Elem()),
		readLeaves(where, "", rest, own, d.set, d.own))
}

func byKey(leaves []leaf) map[string]leaf {
	known := map[string]leaf{}
	for _, l := range leaves {
		known[l.key] = l
	}
	return known
}

// resolveAccounts puts the secrets in the places of their references, checks every account, and notes where each value
// comes from.
func (e *Explanation) resolveAccounts(s *settings, r *resolver) (err error) {
	var all []storedAccount
	for _, d := range s.drafts {
		stored, err := e.resolveAccount(d, r)
		if err != nil {
			return err
		}
		all = append(all, stored)
	}
	sorted.By(all, func(a, b storedAccount) int {
		return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Name, b.Name))
	})
	e.Config.Accounts, err = newAccounts(all)
	return err
}

func (e *Explanation) resolveAccount(d draft, r *resolver) (stored storedAccount, err error) {
	stored = storedAccount{
		Kind: d.network.Kind, Name: d.name, Rule: d.common.Rule, Groups: d.common.Groups,
		Allowlist: d.common.Allowlist.Values(),
	}
	if stored.Secrets, err = e.explainAccount(d, r); err != nil {
		return stored, err
	}
	if err := d.validate(); err != nil {
		return stored, err
	}
	if stored.Settings, err = json.Marshal(d.own.Interface()); err != nil {
		return stored, fmt.Errorf("%s: %w", d.key(), err)
	}
	return stored, nil
}

// validateMemory refuses a memory of messages that is shorter than the time for which a network gives them again: such
// a message would be answered again. Messages that are kept for ever are known for ever.
func (s *settings) validateMemory(c Config) error {
	for _, d := range s.drafts {
		if known, again := c.Bus.DedupeTTL, d.network.Redelivers; c.Retention.Messages > 0 && known < again {
			return corebot.WithHint(fmt.Errorf("bus.dedupe_ttl is %v, and %s can give a message again for %v",
				durationText(known), d.network.Kind, durationText(again)),
				fmt.Sprintf("a message would be answered again: bus.dedupe_ttl must be at least %v",
					durationText(again)))
		}
	}
	return nil
}

// explainAccount notes the values of an account, with its secrets looked up.
func (e *Explanation) explainAccount(d draft, r *resolver) (secrets []string, err error) {
	for _, l := range d.network.leaves() {
		v, field := d.value(l), d.own.FieldByIndex(l.index)
		v.Value = shown(field.Interface())
		if l.isSecret() {
			text, reference, err := r.resolve(v.Key, field.String())
			if err != nil {
				return nil, err
			}
			if strings.ContainsFunc(text, unicode.IsControl) {
				return nil, corebot.WithHint(fmt.Errorf("%s has a control character", v.Key), "write it in one line")
			}
			field.SetString(text)
			v.Value, v.Reference = NewSecret(text), reference
			e.warnOfOpenFile(v, text != "")
			secrets = append(secrets, text)
		} else if err := l.under(d.key()).check(field.Interface()); err != nil {
			return nil, err
		}
		e.Values = append(e.Values, v)
	}
	for _, l := range commonLeaves() {
		v, value := d.value(l), reflect.ValueOf(d.common).FieldByIndex(l.index).Interface()
		if err := l.under(d.key()).check(value); err != nil {
			return nil, err
		}
		v.Value = shown(value)
		e.Values = append(e.Values, v)
	}
	return secrets, nil
}

func (l leaf) under(section string) leaf {
	l.key = section + "." + l.key
	return l
}

func (d draft) value(l leaf) Value {
	v := Value{Key: d.key() + "." + l.key, From: FromDefault}
	if d.set[l.key] {
		v.From, v.Where = d.from.source, d.from.place
	}
	return v
}

// validate refuses an account that means nothing, or whose network refuses it.
func (d draft) validate() error {
	if err := d.common.Access().validate(d.network.Kind, d.name); err != nil {
		return err
	}
	for _, entry := range d.common.Allowlist.Values() {
		account := d.name
		if p, err := corebot.ReadPrincipal(entry); err == nil {
			account = p.Account
		} else if k, err := corebot.ParseKey(entry); err == nil {
			account = k.Account
		}
		if account != d.name {
			return corebot.WithHint(fmt.Errorf("%s.allowlist: %q is of the account %q", d.key(), entry, account),
				"put it into the list of that account")
		}
	}
	v, has := d.own.Interface().(interface{ Validate() error })
	if !has {
		return nil
	}
	err := v.Validate()
	if err == nil {
		return nil
	}
	named := fmt.Errorf("%s: %w", d.key(), err)
	if hint := corebot.HintOf(err); hint != "" {
		return corebot.WithHint(named, hint)
	}
	return named
}

// schema describes the accounts of a network.
func (n Network) schema() schemaObject {
	account := closedObject("one account", []string{"object", "null"})
	for _, l := range slices.Concat(n.leaves(), commonLeaves()) {
		of, name := account, l.key
		if section, rest, part := strings.Cut(name, "."); part {
			if _, known := account.Properties[section]; !known {
				account.Properties[section] = closedObject("", []string{"object", "null"})
			}
			of, name = account.Properties[section], rest
		}
		of.Properties[name] = l.schema()
	}
	o := closedObject("accounts by name: lower-case letters, digits and -", []string{"object", "null"})
	o.Others = account
	return o
}
