package redact

import "bytes"

// Flat is a JSON document in which each array and object that lies deeper than MaxDepth is a string that has its text.
func Flat(raw []byte) []byte {
	if depth(string(raw)) <= MaxDepth {
		return raw
	}
	var out bytes.Buffer
	from, inner := 0, -1 // what is copied already; where the value began that becomes text
	scan(raw, func(now int, bracket byte, at int) {
		opens := bracket == '{' || bracket == '['
		switch {
		case opens && now == MaxDepth+1 && inner < 0:
			inner = at
		case !opens && now == MaxDepth && inner >= 0:
			out.Write(raw[from:inner])
			out.WriteString(quote(string(raw[inner : at+1])))
			from, inner = at+1, -1
		}
	})
	out.Write(raw[from:])
	return out.Bytes()
}

// scan calls see for each bracket of a JSON document, with the depth behind it and its place. It needs no recursion.
func scan[T string | []byte](raw T, see func(depth int, bracket byte, at int)) {
	depth, text := 0, false
	for i := 0; i < len(raw); i++ {
		switch c := raw[i]; {
		case text && c == '\\':
			i++
		case c == '"':
			text = !text
		case text:
		case c == '{' || c == '[':
			depth++
			see(depth, c, i)
		case c == '}' || c == ']':
			depth--
			see(depth, c, i)
		}
	}
}
