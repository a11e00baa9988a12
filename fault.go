package corebot

import "fmt"

// Fault is one way in which a turn fails: a sentence for who reads the chat, and one for who operates Corebot. A chat
// never reads accounts, addresses and keys.
type Fault struct {
	Name     string // stands in docs/errors.md; never changes
	Reader   string // with the verbs of [fmt.Sprintf] for what a case fills in
	Operator string // what to look at or to change
}

// Say is the sentence for the reader of a chat.
func (f Fault) Say(args ...any) string { return fmt.Sprintf(f.Reader, args...) }

// The failures of a model provider. A number in a sentence is the status of its answer.
var (
	FaultTooLong = Fault{
		"too-long", "The message, with what belongs to it, is too long for the model (%d).",
		"The model's context is smaller than Corebot takes it to be: set llm.context_tokens.",
	}
	FaultFiltered = Fault{
		"filtered", "The model provider's content filter stopped the message (%d).",
		"The provider filters requests. Another model or provider may take the message.",
	}
	FaultNoModel = Fault{
		"no-model", "The model provider does not have the model (%d).",
		"Check llm.model and llm.base_url. A local server has a model only once it was fetched.",
	}
	FaultBadRequest = Fault{
		"bad-request", "The model provider did not accept the request (%d).",
		"The provider's words say what it does not accept. A setting such as think or temperature may be one.",
	}
	FaultKeyRefused = Fault{
		"key-refused", "The model provider refused the API key (%d).",
		"Check llm.api_key. `corebot init` tests a new key at once.",
	}
	FaultKeyForbidden = Fault{
		"key-forbidden", "The model provider does not let the API key use the model (%d).",
		"Choose a model that the key may use, or another key.",
	}
	FaultNoCredit = Fault{
		"no-credit", "The account at the model provider has no credit left (%d).",
		"Pay the provider, or put another one into llm.providers.",
	}
	FaultOverloaded = Fault{
		"overloaded", "The model provider is overloaded (%d).",
		"Corebot tries again by itself. A second provider in llm.providers answers meanwhile.",
	}
	FaultRateLimited = Fault{
		"rate-limited", "The model provider limits how often it can be asked (%d).",
		"Corebot waits as long as the provider says. Fewer router.workers ask it less often.",
	}
	FaultProvider = Fault{
		"provider", "The model provider failed (%d).",
		"Corebot tries again by itself. The provider's words are in `corebot why`.",
	}
	FaultTimeout = Fault{
		"timeout", "The model provider did not answer in time.",
		"The endpoint is slow or stuck: llm.timeout, llm.first_byte_timeout, llm.idle_timeout.",
	}
	FaultUnreachable = Fault{
		"unreachable", "The model provider cannot be reached.",
		"Check the network and llm.base_url. A local server must run.",
	}
	FaultNotAModel = Fault{
		"not-a-model", "What answers at the address of the model provider is not a model.",
		"Check llm.base_url and the kind of the provider.",
	}
	FaultBrokenAnswer = Fault{
		"broken-answer", "The model's answer broke off, or could not be read.",
		"Corebot tries again by itself. `corebot why` has the error.",
	}
	FaultLongAnswer = Fault{
		"long-answer", "The model's answer was longer than Corebot allows.",
		"The model repeats itself, or llm.output_tokens is too high.",
	}
	FaultNoRoom = Fault{
		"no-room", "The model used up its output limit before it said anything.",
		"Allow it more output tokens: llm.output_tokens.",
	}
	FaultFilteredAnswer = Fault{
		"filtered-answer", "The model provider's content filter stopped the answer.",
		"Another model or provider may answer.",
	}
	FaultDeclined = Fault{
		"declined", "The model declined to answer.",
		"Another model may answer.",
	}
	FaultNotAChatModel = Fault{
		"not-a-chat-model", "The configured model is not a chat model.",
		"Set llm.model to a chat model.",
	}
	FaultUnknownModel = Fault{
		"unknown-model", "The model that this chat asks for is not configured.",
		"`corebot chats model KEY` gives the chat another model, or none of its own.",
	}
)

// The failures of Corebot itself.
var (
	FaultNoAgent = Fault{
		"no-agent", "The agent %q, which this chat talks to, is not configured any more.",
		"Add it to agents, then replay the dead letter.",
	}
	FaultInside = Fault{
		"inside", "Something failed inside Corebot.",
		"`corebot why` and the log have the error.",
	}
	FaultDamaged = Fault{
		"damaged", "What is stored of message %s cannot be read any more: please send it again.",
		"`corebot db check` says what is damaged. `corebot db restore` goes on with a backup.",
	}
	FaultUnstored = Fault{
		"unstored", "Its answer could not be stored, and would not be the next time.",
		"`corebot why` has the database's error.",
	}
	FaultPoison = Fault{
		"poison", "Corebot broke off %d times in a row at the same place of it.",
		"Something in this turn ends the process: look for a crash or for memory in the system's log.",
	}
	FaultTooLongForAll = Fault{
		"too-long-for-all", "It is too long for the model, also with half of what was said before it. " +
			"Begin a new conversation with /new, or send a shorter message.",
		"A model with a larger context takes longer messages: llm.context_tokens must then say so.",
	}
	FaultAttempts = Fault{
		"attempts", "I tried it %d times. The last time: %s",
		"The last failure says why. bus.max_attempts is how often.",
	}
)

// Faults are all of them, as docs/errors.md lists them.
func Faults() []Fault {
	return []Fault{
		FaultTooLong, FaultFiltered, FaultNoModel, FaultBadRequest, FaultKeyRefused, FaultKeyForbidden, FaultNoCredit,
		FaultOverloaded, FaultRateLimited, FaultProvider, FaultTimeout, FaultUnreachable, FaultNotAModel,
		FaultBrokenAnswer, FaultLongAnswer, FaultNoRoom, FaultFilteredAnswer, FaultDeclined, FaultNotAChatModel,
		FaultUnknownModel, FaultNoAgent, FaultInside, FaultDamaged, FaultUnstored, FaultPoison, FaultTooLongForAll,
		FaultAttempts,
	}
}
