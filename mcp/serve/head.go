package serve

import (
	"encoding/json"
	"math"
)

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

// exact is the least number that two ids of other spellings could be read as: the library keeps numbers as float64.
const exact = 1 << 53

// strange holds for an id that is neither a text nor a number, nor missing, or a number that would come back as another. The library would take any
// JSON for one, and no client could make out such an answer.
func (h head) strange() bool {
	switch id := h.ID.(type) {
	case nil, string:
		return false
	case float64:
		return math.Abs(id) >= exact
	}
	return true
}

// strangeText is what the sender of such an id hears.
const strangeText = "the id of a request is a text, or a number below 2 to the power of 53"
