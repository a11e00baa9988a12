package offline

import (
	"strings"

	"github.com/corebot/corebot/agent/llm"
)

const introduction = "I am Corebot's built-in offline model: no language model is connected, so I match words and " +
	"call tools, and understand nothing."

const help = `To connect a real model, set these environment variables (or llm.* in corebot.yaml), and start Corebot
again:

OPENAI_API_KEY   your key
OPENAI_BASE_URL  the endpoint, if it is not OpenAI's, such as http://127.0.0.1:11434/v1 for Ollama
OPENAI_MODEL     the model, such as gpt-4o-mini

Without them I can still call tools: /tool fs.list {"path":"."} lists the workspace. And I quote
what I find about the words of a question.`

const nothingFound = "I found nothing about that in what I was given (the sections of the workspace and this chat). " +
	introduction + " Say help to learn how to connect a real one."

func converse(question string, given []llm.Message) string {
	words := wordsOf(question)
	switch {
	case len(words) == 0:
		return introduction + " Say help to learn more."
	case len(words) == 1 && words[0] == "help":
		return introduction + "\n\n" + help
	case strings.HasPrefix(question, "Reminder: "): // of a task that is due
		return question
	case greets(words):
		return "Hello! " + introduction + " Say help to learn more."
	}
	quotes := search(question, passagesOf(given))
	if len(quotes) == 0 {
		if asksWho(words) {
			return introduction + " Say help to learn more."
		}
		return nothingFound
	}
	var b strings.Builder
	if asksWho(words) {
		b.WriteString(introduction + "\n\n")
	}
	b.WriteString("(offline model) What I was given says about this:\n")
	for _, q := range quotes {
		b.WriteString("\n- " + q.text + " (" + q.source + ")")
	}
	return b.String()
}

// greets holds for a message that is a greeting and nothing else.
func greets(words []string) bool {
	for _, w := range words {
		switch w {
		case "hi", "hello", "hey", "hallo", "moin", "servus", "good", "morning", "afternoon", "evening", "day", "there",
			"corebot":
		default:
			return false
		}
	}
	return true
}

func asksWho(words []string) bool {
	q := strings.Join(words, " ")
	return strings.HasPrefix(q, "who are you") || strings.HasPrefix(q, "what are you") ||
		strings.HasPrefix(q, "what is your name")
}
