package llmtest

import (
	"encoding/json"
	"slices"
	"sync"
)

// PromptCache is the prompt cache of a provider of OpenAI's API. It remembers each prompt that it has read. A prompt
// that begins like an earlier one costs less: the common beginning counts as cached.
//
// A prompt is the tools, and then the messages, byte for byte as they were sent. Four bytes count as a token. As at
// OpenAI, a beginning of fewer than 1,024 tokens is not cached, and a longer one in steps of 128 tokens.
type PromptCache struct {
	mu    sync.Mutex
	known [][]byte
}

const (
	cacheLeast = 1024 // tokens
	cacheStep  = 128
	tokenBytes = 4
)

// Answer is an answer with the usage of a request, and how many tokens of the request came from the cache.
func (c *PromptCache) Answer(r Request, a Answer) (_ Answer, cached int) {
	prompt := promptOf(r)
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, k := range c.known {
		cached = max(cached, sameBeginning(k, prompt)/tokenBytes)
	}
	if cached -= cached % cacheStep; cached < cacheLeast {
		cached = 0
	}
	c.known = append(c.known, prompt)
	a.usage.Input, a.usage.Cached = len(prompt)/tokenBytes, cached
	return a, cached
}

// promptOf is a request in the order in which a model reads it.
func promptOf(r Request) []byte {
	var parts struct {
		Tools    json.RawMessage   `json:"tools"`
		Messages []json.RawMessage `json:"messages"`
	}
	_ = json.Unmarshal(r.Body, &parts) // the request was read before
	prompt := slices.Clone([]byte(parts.Tools))
	for _, m := range parts.Messages {
		prompt = append(append(prompt, m...), '\n')
	}
	return prompt
}

func sameBeginning(a, b []byte) (n int) {
	for n < min(len(a), len(b)) && a[n] == b[n] {
		n++
	}
	return n
}
