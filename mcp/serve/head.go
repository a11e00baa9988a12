package serve

import "encoding/json"

// head is what is looked at of a message before the library reads it.
type head struct {
	ID     any    `json:"id"`
	Method string `json:"method"`
}

// headOf gives false for what is no message, of which the library says so.
func headOf(message []byte) (h head, ok bool) {
	ok = json.Unmarshal(message, &h) == nil
	return h, ok
}

// strange holds for an id that is neither a text nor a number, nor missing. The library would take any JSON for one, and no client could make out such
// an answer.
func (h head) strange() bool {
	switch h.ID.(type) {
	case nil, string, float64:
		return false
	}
	return true
}

// strangeText is what the sender of such an id hears.
const strangeText = "the id of a request is a text or a number"
