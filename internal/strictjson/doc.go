// Package strictjson reads JSON that others wrote so that no two readers of it see different things.
//
// Unless [Rules] say otherwise, it guarantees that the data
//
//   - is one value of RFC 8259, and nothing follows it;
//   - is UTF-8, and no escape is half a character;
//   - has no object with a name twice, however the name is spelt;
//   - has no value that is nested deeper than its caller takes.
//
// Names are told apart by case, also where [Decode] reads them into the fields of a struct.
// Time and memory are linear in the data. Data nested deeper than 10,000 levels is
// refused under all rules, which is the library's limit.
//
// It is the one place that reads JSON word by word. Corebot reads its own JSON with encoding/json.
package strictjson
