package mail

import "strings"

// results are the checks of a sender that a server has noted in an Authentication-Results field (RFC 8601).
type results struct {
	id     string // of the server
	checks []check
}

// check is one method with its result and its properties, such as header.from. Names are in lower case.
type check struct {
	method, result string
	props          map[string]string
}

const (
	maxResults = 16 << 10 // bytes of a field
	maxChecks  = 50
)

// parseResults reads a field. Comments and quoted texts are what they are: a server quotes what a sender chose, and no
// such text ends a check. A field that breaks the rules anywhere counts for nothing.
func parseResults(field string) (r results, ok bool) {
	tokens, ok := tokenize(field)
	if !ok || len(tokens) == 0 || tokens[0].mark {
		return r, false
	}
	r.id = tokens[0].text
	rest := tokens[1:]
	if len(rest) > 0 && !rest[0].mark { // the version
		if rest[0].text != "1" {
			return r, false
		}
		rest = rest[1:]
	}
	for len(rest) > 0 {
		if !rest[0].is(';') {
			return r, false
		}
		end := 1
		for end < len(rest) && !rest[end].is(';') {
			end++
		}
		c, some, good := parseCheck(rest[1:end])
		if !good || len(r.checks) == maxChecks {
			return r, false
		}
		if some {
			r.checks = append(r.checks, c)
		}
		rest = rest[end:]
	}
	return r, true
}

// parseCheck reads what stands between two semicolons: METHOD=RESULT and properties.
func parseCheck(tokens []token) (c check, some, ok bool) {
	if len(tokens) == 0 || len(tokens) == 1 && strings.EqualFold(tokens[0].text, "none") {
		return c, false, true
	}
	c.props = map[string]string{}
	for first := true; len(tokens) > 0; first = false {
		if len(tokens) < 3 || tokens[0].mark || tokens[0].quoted || !tokens[1].is('=') || tokens[2].mark {
			return c, false, false
		}
		name, value := strings.ToLower(tokens[0].text), tokens[2].text
		tokens = tokens[3:]
		switch _, twice := c.props[name]; {
		case first:
			c.method, _, _ = strings.Cut(name, "/")
			c.result = strings.ToLower(value)
		case twice:
			return c, false, false
		default:
			c.props[name] = value
		}
	}
	return c, true, true
}

type token struct {
	text   string
	mark   bool // it is = or ;
	quoted bool // some of it stood in quotes
}

func (t token) is(mark byte) bool { return t.mark && t.text == string(mark) }

// tokenize splits a field into words, quoted texts and marks, and leaves out comments.
func tokenize(s string) (all []token, ok bool) {
	if len(s) > maxResults {
		return nil, false
	}
	for i := 0; i < len(s); {
		switch c := s[i]; {
		case c == ' ' || c == '\t':
			i++
		case c == '(':
			if i, ok = skipComment(s, i); !ok {
				return nil, false
			}
		case c == '=' || c == ';':
			all = append(all, token{text: string(c), mark: true})
			i++
		default:
			var t token
			if t, i, ok = word(s, i); !ok {
				return nil, false
			}
			all = append(all, t)
		}
	}
	return all, true
}

// word reads one word; parts of it can be quoted, as in "a b"@example.org.
func word(s string, i int) (t token, end int, ok bool) {
	var b strings.Builder
	for i < len(s) && !strings.ContainsRune(" \t(;=", rune(s[i])) {
		switch c := s[i]; {
		case c == '"':
			t.quoted = true
			for i++; ; i++ {
				if i >= len(s) {
					return t, i, false
				}
				if s[i] == '"' {
					i++
					break
				}
				if s[i] == '\\' && i+1 < len(s) {
					i++
				}
				b.WriteByte(s[i])
			}
		case c < ' ' || c == 0x7f || c == ')' || c == '\\':
			return t, i, false
		default:
			b.WriteByte(c)
			i++
		}
	}
	t.text = b.String()
	return t, i, true
}

func skipComment(s string, i int) (end int, ok bool) {
	for depth := 0; i < len(s); i++ {
		switch s[i] {
		case '\\':
			i++
		case '(':
			depth++
		case ')':
			if depth--; depth == 0 {
				return i + 1, true
			}
		}
	}
	return i, false
}

// topmost are the results of the field that stands highest: every server puts its own above those that were there.
func topmost(h header) (results, bool) {
	field, there := h.get("authentication-results")
	if !there {
		return results{}, false
	}
	return parseResults(field)
}

// verified says whether a server has found that a mail is of the address in its From. Only the highest field counts,
// and only under the name of the settings: whatever the sender wrote himself stands below.
//
// A login at the server decides where the server names it: see [results.login]. DMARC decides next: its pass is for the
// domain in From, and its fail ends the matter. Without a policy of the domain, a signature of exactly this domain
// counts, or an envelope of it.
func verified(h header, authservID string, from address) bool {
	r, ok := topmost(h)
	if !ok || authservID == "" || !strings.EqualFold(r.id, authservID) {
		return false
	}
	own, named := r.login(from)
	if named && !own {
		return false
	}
	domain := func(value string) string {
		if i := strings.LastIndexByte(value, '@'); i >= 0 {
			value = value[i+1:]
		}
		return strings.ToLower(strings.TrimSuffix(value, "."))
	}
	aligned, failed := own, false
	for _, c := range r.checks {
		pass := c.result == "pass"
		switch c.method {
		case "dmarc":
			of, named := c.props["header.from"]
			switch {
			case pass && named && domain(of) == from.domain:
				return !contradicted(r, from)
			case c.result != "none" && c.result != "pass":
				failed = true
			}
		case "dkim":
			aligned = aligned || pass && c.props["header.d"] != "" && domain(c.props["header.d"]) == from.domain
		case "spf":
			aligned = aligned || pass && c.props["smtp.mailfrom"] != "" &&
				domain(c.props["smtp.mailfrom"]) == from.domain
		}
	}
	return aligned && !failed
}

// login looks for a login to the server (the method auth of RFC 8601). Somebody who has logged in under the address
// makes own true. A name of a login that the server has noted, in smtp.auth, makes named true. The address in
// smtp.mailfrom is chosen by the client, and many servers let a user choose any. So smtp.mailfrom counts only where no
// check has smtp.auth. A name without a domain is a mailbox of the domain authserv-id, if that is one.
func (r results) login(from address) (own, named bool) {
	own = true
	envelope := false
	for _, c := range r.checks {
		if c.method != "auth" {
			continue
		}
		user, names := c.props["smtp.auth"]
		if named = named || names; !names {
			envelope = envelope || c.result == "pass" && isAddress(c.props["smtp.mailfrom"], from)
			continue
		}
		if user != "" && !strings.Contains(user, "@") {
			user += "@" + r.id
		}
		own = own && c.result == "pass" && isAddress(user, from)
	}
	if named {
		return own, true
	}
	return envelope, false
}

func isAddress(s string, a address) bool {
	of, ok := parseAddress(s)
	return ok && of == a
}

// contradicted says whether another check of DMARC in the same field has failed.
func contradicted(r results, from address) bool {
	for _, c := range r.checks {
		if c.method == "dmarc" && c.result != "pass" && c.result != "none" {
			return true
		}
	}
	return false
}
