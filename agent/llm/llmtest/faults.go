package llmtest

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"
)

// gigabyte is what a provider sends that does not know when to stop.
const gigabyte = 1 << 30

// Faults are all ways in which a provider misbehaves. Their names are unique and never change: tests keep what they
// expect under them.
func Faults() []Fault {
	return slices.Concat(rateLimits(), refusals(), brokenConnections(), silences(), garbage(), floods(), oddAnswers(),
		networks())
}

func answers(name string, a Answer) Fault { return Fault{Name: name, script: Always(a)} }

// either is an answer that the two APIs spell differently.
func either(name string, openAI, anthropic Answer) Fault {
	return Fault{Name: name, script: func(r Request) Answer {
		if r.API == Anthropic {
			return anthropic
		}
		return openAI
	}}
}

func rateLimits() []Fault {
	limit := Fail(http.StatusTooManyRequests, "slow down")
	faults := []Fault{
		answers("429 without Retry-After", limit),
		{Name: "429 with a date", script: func(Request) Answer {
			return limit.Header("Retry-After", time.Now().Add(90*time.Second).UTC().Format(http.TimeFormat))
		}},
		answers("429 in milliseconds", limit.Header("Retry-After-Ms", "1500")),
		either("429 without credit",
			Raw(http.StatusTooManyRequests, "application/json",
				`{"error":{"message":"You exceeded your current quota","type":"insufficient_quota",`+
					`"code":"insufficient_quota"}}`),
			Raw(http.StatusPaymentRequired, "application/json",
				`{"type":"error","error":{"type":"billing_error","message":"Your credit balance is too low"}}`)),
	}
	for name, value := range map[string]string{
		"429 in seconds": "7", "429 in a fraction of a second": "0.5", "429 in zero seconds": "0",
		"429 in negative seconds": "-5",
		"429 in eleven days":      "999999", "429 in more seconds than there are": "1e400", "429 in nonsense": "soon",
		"429 with a date in the past":  "Mon, 01 Jan 1990 00:00:00 GMT",
		"429 with a date in centuries": "Fri, 01 Jan 2400 00:00:00 GMT",
	} {
		faults = append(faults, answers(name, limit.Header("Retry-After", value)))
	}
	slices.SortFunc(faults, func(a, b Fault) int { return strings.Compare(a.Name, b.Name) })
	return faults
}

func refusals() []Fault {
	return []Fault{
		answers("500", Fail(http.StatusInternalServerError, "something broke")),
		answers("502 of a proxy", Raw(http.StatusBadGateway, "text/html", "<html><h1>502 Bad Gateway</h1></html>")),
		answers("503 with Retry-After", Fail(http.StatusServiceUnavailable, "loading the model").Header("Retry-After",
			"5")),
		answers("529", Fail(529, "overloaded")),
		answers("401", Fail(http.StatusUnauthorized, "no such key")),
		answers("403", Fail(http.StatusForbidden, "not for you")),
		answers("404", Fail(http.StatusNotFound, "no such model")),
		answers("400", Fail(http.StatusBadRequest, "temperature is out of range")),
		either("400 context length",
			Raw(http.StatusBadRequest, "application/json",
				`{"error":{"message":"too many tokens","type":"invalid_request_error",`+
					`"code":"context_length_exceeded"}}`),
			Raw(http.StatusBadRequest, "application/json",
				`{"type":"error","error":{"type":"invalid_request_error","message":"prompt is too long: 210000 `+
					`tokens > 200000 maximum"}}`)),
		answers("413", Fail(http.StatusRequestEntityTooLarge, "request too large")),
		either("refused by a filter",
			Raw(http.StatusBadRequest, "application/json", `{"error":{"message":"filtered","code":"content_filter"}}`),
			Text("").Finish("content_filter")),
	}
}

func brokenConnections() []Fault {
	long := Text("one two three four five six")
	return []Fault{
		answers("reset before the headers", long.Reset(-1)),
		answers("reset behind the headers", long.Reset(0)),
		answers("reset in the middle", long.Reset(4)),
		answers("closed in the middle", long.Break(4)),
		answers("no end", long.End(4)),
		either("no [DONE]", long.End(8), long.End(11)),
		answers("an error event, then open", long.Stall(4).SayLast(errorEvent)),
		answers("an error event, then the end", long.End(4).SayLast(errorEvent)),
	}
}

// errorEvent is how a provider says in the middle of a stream that it cannot go on.
func errorEvent(r Request) string {
	if r.API == Anthropic {
		return "event: error\ndata: " +
			"{\"type\":\"error\",\"error\":{\"type\":\"overloaded_error\",\"message\":\"Overloaded\"}}\n\n"
	}
	return "data: {\"error\":{\"message\":\"Overloaded\",\"type\":\"server_error\",\"code\":529}}\n\n"
}

func silences() []Fault {
	long := Text("one two three four five six")
	return []Fault{
		answers("no headers", long.Stall(-1)),
		answers("headers, then silence", long.Stall(0)),
		answers("three chunks, then silence", long.Stall(3)),
		answers("a byte every ten seconds", Text(strings.Repeat("x", 200)).Pieces(1).Every(10*time.Second)),
		answers("headers after two minutes", long.After(2*time.Minute)),
	}
}

func garbage() []Fault {
	return []Fault{
		answers("truncated JSON",
			Text("one two three").End(3).SayLast(
				func(Request) string { return "data: {\"choices\":[{\"delta\":{\"con\n\n" })),
		answers("HTML with 200", Raw(http.StatusOK, "text/html", "<html><title>Sign in</title></html>")),
		answers("JSON with 200", Raw(http.StatusOK, "application/json", `{"hello":"world"}`)),
		answers("an error with 200", Raw(http.StatusOK, "application/json",
			`{"type":"error","error":{"type":"overloaded_error","message":"Overloaded","code":503}}`)),
		answers("a redirect", Raw(http.StatusFound, "", "").Header("Location", "https://login.test/?token=x")),
		answers("an empty body", Raw(http.StatusOK, "text/event-stream", "")),
		answers("no content at all", Raw(http.StatusNoContent, "", "")),
		either("invalid UTF-8",
			Stream("{\"choices\":[{\"index\":0,\"delta\":{\"content\":\"caf\xe9\"},\"finish_reason\":\"stop\"}]}"),
			textMessage("caf\xe9", "end_turn")),
		either("empty choices", Stream(`{"choices":[]}`, `{"choices":[]}`),
			Stream(`{"type":"message_start","message":{}}`, `{"type":"ping"}`)),
	}
}

// textMessage is a message whose text is not escaped, whatever it holds.
func textMessage(text, stop string) Answer {
	return Stream(
		`{"type":"message_start","message":{"id":"msg_1","type":"message","role":"assistant","model":"m",`+
			`"content":[],"usage":{"input_tokens":1,"output_tokens":1}}}`,
		`{"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}`,
		`{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"`+text+`"}}`,
		`{"type":"content_block_stop","index":0}`,
		`{"type":"message_delta","delta":{"stop_reason":"`+stop+`"},"usage":{"output_tokens":1}}`,
		`{"type":"message_stop"}`)
}

func floods() []Fault {
	const word = 1 << 10
	many := strings.Repeat("x", word)
	return []Fault{
		{Name: "a gigabyte of text", script: func(r Request) Answer {
			if r.API == Anthropic {
				return Flood(event(object{
					"type": "content_block_start", "index": 0,
					"content_block": object{"type": "text", "text": many},
				})+"\n\n", gigabyte)
			}
			return Flood(`data: {"choices":[{"index":0,"delta":{"content":"`+many+`"}}]}`+"\n\n", gigabyte)
		}},
		answers("a gigabyte in one line", Flood("data: "+strings.Repeat("x", 64*word), gigabyte)),
		answers("a gigabyte of comments", Flood(strings.Repeat(": "+many+"\n", 64), gigabyte)),
		answers("a gigabyte of an error", Raw(http.StatusInternalServerError, "text/plain",
			"").Flooding(strings.Repeat("no ", word), gigabyte)),
	}
}

// unknownTool is the name of a tool that nobody has.
const unknownTool = "make_coffee"

func oddAnswers() []Fault {
	call := func(args string) Answer { return ToolCalls(Call{Name: "web_search", Args: args}) }
	return []Fault{
		answers("finish_reason length", Text("half of").Finish("length")),
		answers("finish_reason length, and nothing said", Text("").Finish("length")),
		either("null content",
			Stream(`{"choices":[{"index":0,"delta":{"role":"assistant","content":null},"finish_reason":"stop"}]}`),
			textMessage("", "end_turn")),
		answers("an unknown tool", ToolCalls(Call{Name: unknownTool, Args: "{}"})),
		answers("doubled call ids", ToolCalls(Call{ID: "one", Name: "web_search", Args: `{"text":"a"}`},
			Call{ID: "one", Name: "web_search", Args: `{"text":"b"}`})),
		answers("empty arguments", call("")),
		answers("null arguments", call("null")),
		answers("arguments with a doubled key", call(`{"text":"a","text":"b"}`)),
		answers("arguments cut short", call(`{"text":"a`)),
		{Name: "500 calls at once", script: func(Request) Answer { return manyCalls(500) }},
		{Name: "an endless tool loop", script: func(r Request) Answer {
			return call(fmt.Sprintf(`{"text":"%d"}`,
				r.N))
		}},
	}
}

func manyCalls(n int) Answer {
	calls := make([]Call, n)
	for i := range calls {
		calls[i] = Call{Name: "web_search", Args: fmt.Sprintf(`{"text":"%d"}`, i)}
	}
	return ToolCalls(calls...)
}

func networks() []Fault {
	return []Fault{
		{Name: "TLS is not spoken", network: plainTLS},
		{Name: "TLS with a strange certificate", network: strange},
		{Name: "DNS does not know the name", network: nameless},
		{Name: "the connection is refused", network: refused},
		{Name: "a half-open connection", network: deaf},
		{Name: "no connection at all", network: blackhole},
	}
}
