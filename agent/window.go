package agent

import "strings"

// ContextWindow is how many tokens a model takes, prompt and answer together, as its maker says; a provider's prefix, as in openai/gpt-4o, and
// that of a fine-tuned model do not matter. ok is false for a model that is not known.
//
// Models that anybody can serve are not in it: there the server decides, and many serve a small part of what the model could take.
func ContextWindow(model string) (tokens int, ok bool) {
	name := strings.ToLower(model)
	name = name[strings.LastIndexByte(name, '/')+1:]
	name = strings.TrimPrefix(name, "ft:")
	longest := -1
	for _, f := range []struct {
		family string
		tokens int
	}{
		{"gpt-3.5", 16_385},
		{"gpt-4", 8_192},
		{"gpt-4-32k", 32_768},
		{"gpt-4-0125", 128_000},
		{"gpt-4-1106", 128_000},
		{"gpt-4-turbo", 128_000},
		{"gpt-4o", 128_000},
		{"chatgpt-4o", 128_000},
		{"gpt-4.1", 1_047_576},
		{"gpt-4.5", 128_000},
		{"gpt-5", 400_000},
		{"gpt-5-chat", 128_000},
		{"o1", 200_000},
		{"o1-mini", 128_000},
		{"o1-preview", 128_000},
		{"o3", 200_000},
		{"o4-mini", 200_000},
		{"claude", 200_000},
		{"claude-2.0", 100_000},
		{"claude-instant", 100_000},
		{"gemini-1.5", 1_048_576},
		{"gemini-2", 1_048_576},
	} {
		rest, of := strings.CutPrefix(name, f.family)
		if of && len(f.family) > longest && (rest == "" || strings.ContainsAny(rest[:1], "-.:")) {
			tokens, ok, longest = f.tokens, true, len(f.family)
		}
	}
	return tokens, ok
}
