package router_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/internal/apptest"
	"github.com/corebot/corebot/router"
	"github.com/corebot/corebot/tools"
)

// ofFiles is a tool of an MCP server.
func ofFiles(t *testing.T, name string, saysReads bool) tools.Tool {
	t.Helper()
	tool, err := tools.NewDynamic(tools.Dynamic{
		Name: "mcp__files__" + name, Doc: "A tool of a server.", Schema: []byte(`{"type":"object"}`),
		Traits: tools.SideEffect | tools.Privileged | tools.Outside, SaysReads: saysReads,
		Definition: func() string { return "v1" }, Made: "v1",
		Run: func(context.Context, tools.Call, json.RawMessage) (string, error) { return "done", nil },
	})
	must(t, err)
	return tool
}

// TestTheWayOutIsToldOnceInATurnToThoseWhoCanTakeIt: the owner and the admins' chat. The text of a request in any other
// chat is for people who can change no setting.
func TestTheWayOutIsToldOnceInATurnToThoseWhoCanTakeIt(t *testing.T) {
	for _, owner := range []corebot.OwnersChannel{"", apptest.Channel} {
		synctest.Test(t, func(t *testing.T) {
			admins := corebot.Key{Agent: corebot.DefaultAgent, Channel: "elsewhere", Chat: "admins"}
			get, put := apptest.Call("g", "mcp__files__get", `{}`), apptest.Call("p", "mcp__files__put", `{}`)
			k := apptest.New(t, apptest.Options{
				Router: router.Options{AdminChat: admins, Owner: owner},
				Tools:  []tools.Tool{reads(), ofFiles(t, "get", true), ofFiles(t, "put", false)},
				Model: apptest.Script(apptest.Asks(apptest.Call("w", "web.fetch", `{"text":"page"}`)),
					apptest.Asks(put), apptest.Asks(get, put), apptest.Asks(get), apptest.Text("done")),
			}).Start()
			must(t, k.Grants.Grant(t.Context(), corebot.Grant{
				Principal: apptest.Person("root"), Role: corebot.RoleAdmin, By: "operator",
			}))
			k.SayAs("root", "a", "1", "go")
			const way = "If you know that mcp__files__get only reads, " + corebot.HowToDeclare +
				", lets it run without an approval."
			for i, names := range []bool{false, true, false} {
				pass(time.Second)
				told := k.Told("1")
				if len(told) != 2*i+2 {
					t.Fatalf("%d requests were told as %d notices", i+1, len(told))
				}
				for _, m := range told[2*i:] {
					want := names && (m.Key == admins || owner != "")
					if strings.Contains(m.Text(), way) != want || !want && strings.Contains(m.Text(), ".mcp.json") {
						t.Errorf("the owner's channel is %q, request %d in %s: want the way out: %v\n%s", owner, i+1,
							m.Key, want, m.Text())
					}
				}
				k.SayAs("root", "a", "yes"+told[2*i].ID, "/approve "+[]string{"1", "2", "4"}[i])
			}
			pass(time.Second)
			k.WantEnd("1", corebot.EndAnswered)
		})
	}
}
