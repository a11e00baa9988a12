package console

import (
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/corebot/corebot"
)

// fieldsOf has the fields of the form of each action. One with ? can be empty: its page says what that means. One with
// * can stand there several times. Every form can also name the page to go back to.
var fieldsOf = map[string]string{
	"POST /login":                        "code? to?",
	"POST /logout":                       "",
	"POST /chats":                        "name? agent",
	"POST /chats/{chat}/send":            "id text edit",
	"POST /chats/{chat}/command":         "command text",
	"POST /chats/{chat}/change":          "what value? registered?",
	"POST /approvals/{id}":               "answer",
	"POST /rules/{id}/revoke":            "",
	"POST /deadletters/bulk":             "action direction agent channel sender reason text error before after_",
	"POST /deadletters/{id}/{action}":    "fresh newId text",
	"POST /audit/verify":                 "",
	"POST /tasks":                        "chat kind spec zone? prompt name? context",
	"POST /tasks/{id}/{action}":          "",
	"POST /jobs/{id}/stop":               "",
	"POST /channels/{action}":            "kind account?",
	"POST /pairings/{code}":              "answer",
	"POST /mcp/{agent}/{server}/approve": "tool* readonly*",
	"POST /mcp/{agent}/reload":           "",
	"POST /memory/{action}":              "chat fingerprint line*",
	"POST /memory/facts/forget":          "fact*",
	"POST /settings/reload":              "",
	"POST /sessions/{id}/revoke":         "",
}

const backField = " back?"

// readForm reads the form of a request. A form that cannot be read must not be taken for an empty one. Nor must a field
// that no page sends, or that is empty, widen what an action does.
func readForm(r *http.Request) error {
	err := r.ParseForm()
	if tooLarge := (*http.MaxBytesError)(nil); errors.As(err, &tooLarge) {
		return err
	}
	if err != nil {
		return fmt.Errorf("%w: the form cannot be read: %w", corebot.ErrInvalid, err)
	}
	if r.Pattern == "" { // there is no such page, whatever it is asked with
		return nil
	}
	if r.Method == http.MethodPost {
		return checkForm(r.Form, fieldsOf[r.Pattern]+backField)
	}
	for _, name := range slices.Sorted(maps.Keys(r.Form)) {
		if len(r.Form[name]) > 1 {
			return doubled(name)
		}
	}
	return nil
}

// checkForm refuses what a form with the given fields does not have.
func checkForm(form url.Values, fields string) error {
	known := map[string]string{} // the mark of each
	var names []string
	for field := range strings.FieldsSeq(fields) {
		name := strings.TrimRight(field, "?*")
		known[name], names = field[len(name):], append(names, name)
	}
	for _, name := range slices.Sorted(maps.Keys(form)) {
		mark, has := known[name]
		switch {
		case !has:
			return corebot.WithHint(fmt.Errorf("%w: there is no field %q", corebot.ErrInvalid,
				corebot.Plainly(clip(100, name))), "its fields are: "+strings.Join(names, ", "))
		case len(form[name]) > 1 && mark != "*":
			return doubled(name)
		case mark != "?" && slices.Contains(form[name], ""):
			return corebot.WithHint(fmt.Errorf("%w: %s is empty", corebot.ErrInvalid, name),
				"write a value, or leave it out")
		}
	}
	return nil
}

func doubled(name string) error {
	return corebot.WithHint(fmt.Errorf("%w: %s stands there twice", corebot.ErrInvalid,
		corebot.Plainly(clip(100, name))), "give it once")
}
