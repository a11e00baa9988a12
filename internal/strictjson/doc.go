// Package strictjson reads JSON that others wrote so that no two readers of it see different things.
//
// It guarantees, unless [Rules] say otherwise: the data is one value of RFC 8259 and nothing else; it is UTF-8; no escape is
// half a character; no object has a name twice, however the name is spelt; and no value is nested deeper than its caller
// takes. Time and memory are linear in the data. Names are told apart by case.
//
// It is the one place that reads JSON word by word. What Corebot itself wrote is read with encoding/json.
package strictjson
