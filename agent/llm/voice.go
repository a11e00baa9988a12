package llm

import "github.com/corebot/corebot"

// Voice is how a model is to answer, whatever it is asked. The zero Voice leaves everything to the provider.
type Voice struct {
	Think       corebot.Thinking
	Temperature *float64 // how freely words are chosen, from 0 to 2; nil: the provider's default
}

// Thinker is implemented by models that can tell how they think.
type Thinker interface {
	// Thinks says what a model does that is asked for a level of thinking: the nearest level that it has. The result
	// sure is false if only the model's server knows.
	Thinks(asked corebot.Thinking) (does corebot.Thinking, sure bool)
}
