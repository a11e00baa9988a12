package llm

// Voice is how a model is to answer, whatever it is asked. The zero Voice leaves everything to the provider.
type Voice struct {
	Think       Thinking
	Temperature *float64 // how freely words are chosen, from 0 to 2; nil: the provider's default
}

// Thinking is how much a model thinks before it answers. Each provider says the same in its own terms: as an effort or
// as a budget of tokens. A model that cannot do what is asked does what is nearest.
type Thinking string

// The values are those of the setting agents[].think.
const (
	ThinkDefault Thinking = "" // what the provider, or its settings, do by themselves
	ThinkOff     Thinking = "off"
	ThinkMinimal Thinking = "minimal"
	ThinkLow     Thinking = "low"
	ThinkMedium  Thinking = "medium"
	ThinkHigh    Thinking = "high"
)
