package storage

import (
	"encoding/base64"
	"encoding/json"
	"fmt"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/internal/runes"
)

// cursor spells the place of a row in a list: the fields that the list is ordered by.
func cursor(list string, place ...any) string {
	raw, _ := json.Marshal(append([]any{list}, place...)) // of strings and numbers: cannot fail
	return base64.RawURLEncoding.EncodeToString(raw)
}

// behind reads the place that a cursor of a list spells. An empty cursor leaves the place as it is: the beginning. A
// cursor that the list never gave is [corebot.ErrInvalid].
func behind(after, list string, place ...any) error {
	if after == "" {
		return nil
	}
	raw, err := base64.RawURLEncoding.DecodeString(after)
	var fields []json.RawMessage
	if err == nil {
		err = json.Unmarshal(raw, &fields)
	}
	var of string
	into := append([]any{&of}, place...)
	if err != nil || len(fields) != len(into) {
		return badCursor(after)
	}
	for i, field := range fields {
		if json.Unmarshal(field, into[i]) != nil {
			return badCursor(after)
		}
	}
	if of != list {
		return badCursor(after)
	}
	return nil
}

func badCursor(after string) error {
	return fmt.Errorf("%w: %q is no cursor of this list: send what an earlier page gave, or leave it out",
		corebot.ErrInvalid, runes.Head(after, 100))
}

// nextPage is the cursor behind the last row of a page. A page that is not full has none: nothing is left.
func nextPage[T any](found []T, limit int, at func(T) string) string {
	if len(found) < limit || len(found) == 0 {
		return ""
	}
	return at(found[len(found)-1])
}
