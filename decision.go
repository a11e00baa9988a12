package corebot

import (
	"fmt"
	"slices"
	"strings"
	"unicode"
)

// Decision is how a person answers a request for an approval.
type Decision struct {
	Approve bool `json:"approve"`
	Stop    bool `json:"stop,omitempty"` // of a denial: the answer ends, too
}

// State is the state of a request after the decision.
func (d Decision) State() ApprovalState {
	if d.Approve {
		return ApprovalApproved
	}
	return ApprovalDenied
}

// Validate refuses a decision that contradicts itself.
func (d Decision) Validate() error {
	if d.Approve && d.Stop {
		return fmt.Errorf("%w: a request cannot be decided by %+v", ErrInvalid, d)
	}
	return nil
}

// ParseDecision reads an /approve or a /deny. ok is false for words that are none.
func ParseDecision(c Command) (id int64, d Decision, ok bool) {
	d.Approve = c.Name == "/approve"
	words := strings.Fields(strings.ToLower(c.Args))
	if len(words) == 0 || len(words) > 2 {
		return 0, d, false
	}
	id, err := ParseApprovalID(words[0])
	if err != nil || len(words) == 1 {
		return id, d, err == nil
	}
	switch word := words[1]; {
	case d.Approve && word == "once":
	case !d.Approve && word == "stop":
		d.Stop = true
	default:
		return 0, d, false
	}
	return id, d, true
}

var (
	// answerWords are what people say instead of a command, in some languages.
	answerWords = strings.Fields(`yes y yep yeah yup ok okay k sure fine approve approved allow allowed accept accepted
		confirm confirmed granted always session once no n nope never deny denied reject rejected refuse cancel stop
		don't dont ja jo nein nee oui non sí si sì sim não da nie tak да нет はい いいえ 是 不 好 네 아니요 👍 👎 ✅ ❌ ✔ ✗`)
	// answerFillers stand beside them.
	answerFillers = strings.Fields(`please it this that one go ahead do not run thanks thank you for the just i and
		call calls all chat bitte danke`)
)

// maxAnswerWords is how long a text can be that only answers a request.
const maxAnswerWords = 5

// LooksLikeAnswer says whether a text is probably meant as an answer to a request for an approval, such as "yes" or
// "ok, go ahead". It is no command, so it answers nothing.
func LooksLikeAnswer(text string) bool {
	words := strings.FieldsFunc(strings.ToLower(text), func(r rune) bool {
		return r != '\'' && r != '’' &&
			(unicode.IsSpace(r) || unicode.IsPunct(r) || unicode.In(r, unicode.Variation_Selector, unicode.Sk))
	})
	if len(words) == 0 || len(words) > maxAnswerWords {
		return false
	}
	text = strings.Join(words, " ")
	answers := text == "go ahead" || text == "do it" || text == "run it" || text == "go on"
	for _, word := range words {
		word = strings.ReplaceAll(word, "’", "'")
		_, numbered := ParseApprovalID(word)
		switch {
		case slices.Contains(answerWords, word):
			answers = true
		case numbered != nil && !slices.Contains(answerFillers, word):
			return false
		}
	}
	return answers
}
