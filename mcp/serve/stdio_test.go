package serve_test

import (
	"encoding/json"
	"fmt"
	"io"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mark3labs/mcp-go/client"
	"github.com/mark3labs/mcp-go/client/transport"
	"github.com/mark3labs/mcp-go/mcp"

	"github.com/corebot/corebot/internal/apptest"
	"github.com/corebot/corebot/mcp/serve"
)

func TestAClientOfTheLibraryWorksOverStandardInputAndOutput(t *testing.T) {
	within(t, rigOptions{}, func(t *testing.T, r *rig) {
		w := r.dial()
		c := client.NewClient(transport.NewIO(w.out, w.in, io.NopCloser(strings.NewReader(""))))
		r.must(c.Start(t.Context()))
		hello := mcp.InitializeRequest{}
		hello.Params.ProtocolVersion = "2025-11-25"
		got, err := c.Initialize(t.Context(), hello)
		r.must(err)
		if got.ServerInfo.Name != "corebot" || got.Instructions == "" || got.Capabilities.Tools == nil ||
			got.Capabilities.Prompts != nil {
			t.Errorf("the server is %+v", got)
		}
		ask := mcp.CallToolRequest{}
		ask.Params.Name, ask.Params.Arguments = "message_publish", map[string]any{"content": "hi"}
		result, err := c.CallTool(t.Context(), ask)
		r.must(err)
		object, _ := result.StructuredContent.(map[string]any)
		if result.IsError || object["answered"] != true {
			t.Errorf("the result is %+v", result)
		}
		r.must(c.Close())
		if err := <-w.ended; err != nil {
			t.Errorf("ServeStdio: %v", err)
		}
	})
}

func TestToolsSayWhatTheyDo(t *testing.T) {
	within(t, rigOptions{}, func(t *testing.T, r *rig) {
		r.stand(everywhere)
		tools, err := r.service.Tools(t.Context())
		r.must(err)
		want := map[string]serve.Hints{
			"chat_list": {ReadOnly: true, Idempotent: true}, "history_read": {ReadOnly: true, Idempotent: true},
			"message_replies": {ReadOnly: true, Idempotent: true},
			"status_read":     {ReadOnly: true, Idempotent: true}, "bus_dead_letter_list": {
				ReadOnly:   true,
				Idempotent: true,
			},
			"message_publish": {Destructive: true, OpenWorld: true}, "bus_dead_letter_replay": {OpenWorld: true},
		}
		for _, tool := range tools {
			if tool.Hints != want[tool.Name] || tool.Title == "" || tool.Description == "" ||
				!json.Valid(tool.Schema) || tool.Output != nil && !json.Valid(tool.Output) {
				t.Errorf("the tool %s is %+v", tool.Name, tool)
			}
		}
		if len(tools) != len(want) {
			t.Errorf("there are %d tools", len(tools))
		}
	})
}

func TestWhoeverAskedForProgressHearsThatItIsWaitedFor(t *testing.T) {
	model := apptest.Always(apptest.After(17*time.Second, apptest.Text("done")))
	within(t, rigOptions{kit: apptest.Options{Model: model}}, func(t *testing.T, r *rig) {
		w := r.dial().hello()
		w.say(request(1, "tools/call",
			`{"name":"message_publish","arguments":{"content":"x"},"_meta":{"progressToken":"tok"}}`))
		m, notes := w.answer(1)
		if m.Result.IsError || len(notes) != 3 {
			t.Fatalf("%d notifications, then %+v", len(notes), m)
		}
		for i, n := range notes {
			if n.Method != "notifications/progress" || n.Params["progressToken"] != "tok" ||
				n.Params["progress"] != float64(i+1) {
				t.Errorf("a notification is %+v", n)
			}
		}
		w.say(toolCall(2, "message_publish", `{"content":"y"}`)) // nobody asked for any
		if _, notes := w.answer(2); len(notes) != 0 {
			t.Errorf("unasked for: %+v", notes)
		}
	})
}

func TestACancellationEndsTheWaitOfItsRequestAlone(t *testing.T) {
	model := apptest.Always(apptest.After(time.Minute, apptest.Text("done")))
	within(t, rigOptions{kit: apptest.Options{Model: model}}, func(t *testing.T, r *rig) {
		w := r.dial().hello()
		began := time.Now()
		w.say(toolCall(1, "message_publish", `{"content":"x","id":"q1","chatId":"a"}`))
		w.say(toolCall(2, "message_publish", `{"content":"x","id":"q2","chatId":"b","waitSeconds":90}`))
		synctest.Wait()
		w.say(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}`)
		if m, _ := w.answer(1); !m.Result.IsError || time.Since(began) > time.Second {
			t.Errorf("after %v: %+v", time.Since(began), m)
		}
		m, _ := w.answer(2)
		var p published
		if m.Result.IsError || json.Unmarshal(m.Result.StructuredContent, &p) != nil || !p.Answered {
			t.Errorf("the other one: %+v", m)
		}
		synctest.Wait()
		r.WantEnd("q1", "answered")
	})
}

func TestARepeatedCallUnderOneKeySaysItOnce(t *testing.T) {
	model := apptest.Always(apptest.Text("done"))
	within(t, rigOptions{kit: apptest.Options{Model: model}}, func(t *testing.T, r *rig) {
		w := r.dial().hello()
		for id := range 2 {
			w.say(request(id+1, "tools/call", `{"name":"message_publish","arguments":{"content":"x"},"_meta":{"`+
				serve.IdempotencyKey+`":"k"}}`))
			if m, _ := w.answer(float64(id + 1)); m.Result.IsError {
				t.Errorf("%+v", m)
			}
		}
		if n := len(model.Requests()); n != 1 {
			t.Errorf("the model was asked %d times", n)
		}
	})
}

func TestLinesThatAreNoMessagesHurtNobody(t *testing.T) {
	within(t, rigOptions{server: serve.ServerOptions{MaxLine: 1 << 16}}, func(t *testing.T, r *rig) {
		w := r.dial().hello()
		go func() { // answered or not, nothing may follow from it
			for _, line := range []string{
				"", "   ", "garbage", "{", "[]", "[1,2]", "null", "7", `"x"`, "{}",
				`{"jsonrpc":"1.0","id":1,"method":"ping"}`, `{"jsonrpc":"2.0"}`,
				`{"jsonrpc":"2.0","id":{},"method":"ping"}`, `{"jsonrpc":"2.0","id":[1],"method":"ping"}`,
				`{"jsonrpc":"2.0","id":1e400,"method":"ping"}`,
				`{"jsonrpc":"2.0","id":77,"method":"no/such"}`, `{"jsonrpc":"2.0","id":78,"method":"tools/call"}`,
				`{"jsonrpc":"2.0","id":79,"method":"tools/call","params":[]}`,
				`{"jsonrpc":"2.0","id":80,"method":"tools/call","params":{"name":"shell.exec","arguments":{}}}`,
				`{"jsonrpc":"2.0","id":81,"result":{}}`,
				`{"jsonrpc":"2.0","id":82,"error":{"code":1,"message":"x"}}`,
				`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":9999}}`,
				`{"jsonrpc":"2.0","id":83,"method":"resources/list"}`,
				`{"jsonrpc":"2.0","id":84,"method":"prompts/get","params":{"name":"x"}}`,
				`{"jsonrpc":"2.0","id":85,"method":"subscriptions/listen",` +
					`"params":{"notifications":{"toolsListChanged":true}}}`,
				`{"jsonrpc":"2.0","id":86,"method":"tasks/list"}`, "\x00\xff\xfe", long(1 << 17),
				strings.Repeat("[", 60_000),
			} {
				_, _ = io.WriteString(w.in, line+"\n")
			}
			_, _ = io.WriteString(w.in, request(99, "ping", `{}`)+"\n")
		}()
		if m, _ := w.answer(99); m.Error != nil {
			t.Errorf("ping: %+v", m.Error)
		}
	})
}

// What JSON-RPC does not know for an id would come back as one that no client could make out.
func TestAnIDIsATextOrANumber(t *testing.T) {
	within(t, rigOptions{}, func(t *testing.T, r *rig) {
		w := r.dial().hello()
		for _, id := range []string{`{}`, `{"a":1}`, `[1]`, `true`, `9007199254740993`, `-9007199254740993`, `1e300`} {
			w.say(`{"jsonrpc":"2.0","id":` + id + `,"method":"ping"}`)
			if m := w.hear(); m.Error == nil || m.Error.Code != -32600 || m.ID != nil {
				t.Errorf("the id %s is answered %+v", id, m)
			}
		}
		for id, want := range map[string]any{`"x"`: "x", `-7`: -7., `0.5`: .5, `9007199254740991`: 9007199254740991.} {
			w.say(`{"jsonrpc":"2.0","id":` + id + `,"method":"ping"}`)
			if m := w.hear(); m.Error != nil || m.ID != want {
				t.Errorf("the id %s is answered %+v", id, m)
			}
		}
	})
}

func TestALineWithoutEndCostsNoMemory(t *testing.T) {
	within(t, rigOptions{server: serve.ServerOptions{MaxLine: 1 << 16}}, func(t *testing.T, r *rig) {
		w := r.dial().hello()
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		piece := []byte(long(1 << 16))
		for range 4_096 { // 256 MiB
			if _, err := w.in.Write(piece); err != nil {
				t.Fatal(err)
			}
		}
		runtime.ReadMemStats(&after)
		if grown := int64(after.HeapAlloc) - int64(before.HeapAlloc); grown > 32<<20 {
			t.Errorf("a line of 256 MiB took %d MiB", grown>>20)
		}
		go func() { _, _ = io.WriteString(w.in, "\n") }()
		if m := w.hear(); m.Error == nil || !strings.Contains(m.Error.Message, "65536") {
			t.Errorf("it said %+v", m)
		}
		w.alive()
	})
}

func TestAFloodOfCallsIsRefusedBeyondItsBoundAndOthersAreAnswered(t *testing.T) {
	model := apptest.Always(apptest.After(time.Minute, apptest.Text("done")))
	within(t, rigOptions{kit: apptest.Options{Model: model}, server: serve.ServerOptions{MaxRequests: 8}},
		func(t *testing.T, r *rig) {
			w, other := r.dial().hello(), r.dial().hello()
			go func() {
				for id := range 10_000 {
					_, _ = io.WriteString(w.in, toolCall(id+1, "message_publish",
						fmt.Sprintf(`{"content":"x","chatId":"c%d","waitSeconds":30}`, id))+"\n")
				}
			}()
			refused, answered := 0, 0
			for range 10_000 {
				m := w.hear()
				if m.Error != nil {
					refused++
				} else {
					answered++
				}
				if refused == 5_000 {
					other.alive()
				}
			}
			if answered != 8 || refused != 9_992 {
				t.Errorf("%d answered, %d refused", answered, refused)
			}
			w.alive()
		})
}

func TestAClientThatDoesNotReadHoldsUpItselfAndIsLeftAtTheEnd(t *testing.T) {
	within(t, rigOptions{}, func(t *testing.T, r *rig) {
		w, other := r.dial().hello(), r.dial().hello()
		sent := make(chan int, 1)
		go func() {
			n := 0
			for ; n < 100_000; n++ {
				if _, err := io.WriteString(w.in, request(n, "tools/list", `{}`)+"\n"); err != nil {
					break
				}
			}
			sent <- n
		}()
		synctest.Wait()
		other.alive()
		began := time.Now()
		w.leave()
		if err := <-w.ended; err != nil || time.Since(began) > 5*time.Second {
			t.Errorf("it was left after %v: %v", time.Since(began), err)
		}
		if n := <-sent; n > 100 {
			t.Errorf("%d requests were taken from a client that reads nothing", n)
		}
	})
}

func TestAClientThatAsksAndHangsUpIsAnswered(t *testing.T) {
	model := apptest.Always(apptest.After(time.Second, apptest.Text("done")))
	within(t, rigOptions{kit: apptest.Options{Model: model}}, func(t *testing.T, r *rig) {
		w := r.dial().hello()
		w.say(toolCall(1, "message_publish", `{"content":"x"}`))
		r.must(w.in.Close())
		if m, _ := w.answer(1); m.Result.IsError {
			t.Errorf("the answer is %+v", m)
		}
		if err := <-w.ended; err != nil {
			t.Errorf("ServeStdio: %v", err)
		}
	})
}

func TestAHangUpDoesNotWaitForALongCall(t *testing.T) {
	model := apptest.Always(apptest.After(time.Hour, apptest.Text("done")))
	within(t, rigOptions{kit: apptest.Options{Model: model}}, func(t *testing.T, r *rig) {
		w := r.dial().hello()
		w.say(toolCall(1, "message_publish", `{"content":"x","id":"q1","waitSeconds":600}`))
		synctest.Wait()
		began := time.Now()
		r.must(w.in.Close())
		go func() { _, _ = io.Copy(io.Discard, w.out) }()
		if err := <-w.ended; err != nil || time.Since(began) > 5*time.Second {
			t.Errorf("ServeStdio ended after %v: %v", time.Since(began), err)
		}
		r.WantEnd("q1", "")
	})
}

func TestAClientThatClosesItsEndEndsTheServer(t *testing.T) {
	within(t, rigOptions{}, func(t *testing.T, r *rig) {
		in, fromClient := io.Pipe()
		out, toServer := io.Pipe()
		r.must(in.Close())
		ended := make(chan error, 1)
		go func() { ended <- r.server.ServeStdio(t.Context(), out, fromClient) }()
		_, _ = io.WriteString(toServer, request(1, "ping", `{}`)+"\n")
		if err := <-ended; err == nil || !strings.Contains(err.Error(), "standard output") {
			t.Errorf("it ended with %v", err)
		}
		r.must(toServer.Close())
	})
}
