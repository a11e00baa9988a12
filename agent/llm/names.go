package llm

import (
	"crypto/sha256"
	"encoding/hex"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// MaxProviderName is the longest tool name that providers take, in bytes.
const MaxProviderName = 64

// EncodeName is a tool's name at a provider, unless another tool of the request wants the same name. fs.read becomes
// fs_read. A name that providers accept stays as it is, and a name that is too long ends in a hash of itself. The
// result depends on the name alone. Providers use [Names], which also settles collisions and finds the way back.
func EncodeName(name string) string {
	if providerTakes(name) {
		return name
	}
	plain := strings.Map(func(r rune) rune {
		if r < 0x80 && plainNameByte(byte(r)) {
			return r
		}
		return '_'
	}, name)
	if plain == "" || len(plain) > MaxProviderName {
		return hashedName(name, 0)
	}
	return plain
}

// Names translates the tool names of one request to what providers allow ([A-Za-z0-9_-], 1 to 64 bytes) and back.
//
// No two names of a request share an encoding, so Decode(Encode(name)) is name. Encodings are the same in every process
// and in every request that offers the same tools, since providers cache prompts by their bytes. A chat's history never
// changes the encoding of an offered tool. Only names that collide get a hash, and a valid name stays as it is.
type Names struct {
	encoded map[string]string
	decoded map[string]string
}

// NewNames knows the tools that r offers and those that calls in its history name.
func NewNames(r Request) *Names { return OfferedNames(r.Tools).With(r.Messages) }

// OfferedNames knows tools that are offered. It can be kept for as long as the same are: see [Names.With].
func OfferedNames(tools []Tool) *Names {
	n := &Names{encoded: make(map[string]string, len(tools)), decoded: make(map[string]string, len(tools))}
	offered := make([]string, len(tools))
	for i, t := range tools {
		offered[i] = t.Name
	}
	n.addOffered(offered)
	return n
}

// With also knows the tools that calls in a history name, first come, first served. A history grows at its end, and its
// names keep their encoding. With leaves n as it is, and returns n if n knows them all.
func (n *Names) With(history []Message) *Names {
	with := n
	for _, m := range history {
		for _, c := range m.Calls {
			if _, known := with.encoded[c.Tool]; known {
				continue
			}
			if with == n {
				with = &Names{encoded: maps.Clone(n.encoded), decoded: maps.Clone(n.decoded)}
			}
			with.claim(c.Tool, EncodeName(c.Tool))
		}
	}
	return with
}

// Encode is the provider's name of a tool. A name that is not of the request is encoded as by [EncodeName].
func (n *Names) Encode(name string) string {
	if e, ok := n.encoded[name]; ok {
		return e
	}
	return EncodeName(name)
}

// Decode is the internal name behind a provider's. A name that the model made up stays as it is, so that whoever looks
// it up says that there is no such tool.
func (n *Names) Decode(provider string) string {
	if d, ok := n.decoded[provider]; ok {
		return d
	}
	return provider
}

// addOffered treats the tools as a set: their order does not matter. If several tools want one encoding, all of them
// are hashed. So no tool ever gets the former name of another tool.
func (n *Names) addOffered(names []string) {
	names = slices.Clone(names)
	slices.Sort(names)
	names = slices.Compact(names)
	wanted := make(map[string]int)
	for _, name := range names {
		if providerTakes(name) {
			n.claim(name, name)
		} else {
			wanted[EncodeName(name)]++
		}
	}
	for _, name := range names {
		if providerTakes(name) {
			continue
		}
		e := EncodeName(name)
		if wanted[e] > 1 {
			e = n.freeHash(name)
		}
		n.claim(name, e)
	}
}

// claim gives name the encoding that it wants, or a hash if another has it.
func (n *Names) claim(name, wanted string) {
	if _, taken := n.decoded[wanted]; taken {
		wanted = n.freeHash(name)
	}
	n.encoded[name], n.decoded[wanted] = wanted, name
}

func (n *Names) freeHash(name string) string {
	for salt := 0; ; salt++ {
		e := hashedName(name, salt)
		if _, taken := n.decoded[e]; !taken {
			return e
		}
	}
}

// hashedName keeps the readable beginning of a name. A salt above zero gives another hash, for the case that a tool is
// really called like this.
func hashedName(name string, salt int) string {
	const hashDigits = 8
	hashed := name
	if salt > 0 {
		hashed += "\x00" + strconv.Itoa(salt)
	}
	sum := sha256.Sum256([]byte(hashed))
	var b strings.Builder
	for _, r := range name {
		if b.Len() == MaxProviderName-hashDigits-1 {
			break
		}
		if r < 0x80 && plainNameByte(byte(r)) {
			b.WriteRune(r)
		} else {
			b.WriteByte('_')
		}
	}
	b.WriteByte('_')
	b.WriteString(hex.EncodeToString(sum[:hashDigits/2]))
	return b.String()
}

func providerTakes(name string) bool {
	if name == "" || len(name) > MaxProviderName {
		return false
	}
	for i := range len(name) {
		if !plainNameByte(name[i]) {
			return false
		}
	}
	return true
}

func plainNameByte(c byte) bool {
	return c == '_' || c == '-' || '0' <= c && c <= '9' || 'A' <= c && c <= 'Z' || 'a' <= c && c <= 'z'
}
