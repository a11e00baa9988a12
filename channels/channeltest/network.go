package channeltest

import (
	"fmt"
	"os"
	"reflect"
	"strings"
	"sync"
	"testing"

	"github.com/corebot/corebot/channels"
)

// Names keeps which ids of a platform stand for the ids of a test. The zero value knows none.
type Names struct {
	mu  sync.Mutex
	ids map[string]string
}

// Is says that the platform calls the message id by another name.
func (n *Names) Is(id, name string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.ids == nil {
		n.ids = map[string]string{}
	}
	n.ids[id] = name
}

// Of is the platform's name of a message; the id itself where none is known.
func (n *Names) Of(id string) string {
	n.mu.Lock()
	defer n.mu.Unlock()
	if name, is := n.ids[id]; is {
		return name
	}
	return id
}

// Page holds the section of a network in docs/channels.md against its settings and its errors. The section has a row
// for each setting with its default, and a row that begins with each text.
func Page(t *testing.T, heading string, n channels.Network, errors ...string) {
	t.Helper()
	text, err := os.ReadFile("../../docs/channels.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, found := strings.Cut(string(text), "\n## "+heading+"\n")
	section, _, _ = strings.Cut(section, "\n## ")
	if !found {
		t.Fatalf("the page has no section %s", heading)
	}
	standard := reflect.ValueOf(n.Standard)
	for i := range standard.NumField() {
		row := fmt.Sprintf("| `%s` | `%v` |", standard.Type().Field(i).Tag.Get("mapstructure"), standard.Field(i))
		row = strings.Replace(row, "| `` |", "| |", 1)
		if !strings.Contains(section, row) {
			t.Errorf("the section %s has no row %s", heading, row)
		}
	}
	for _, said := range errors {
		if !strings.Contains(section, "\n| "+said) {
			t.Errorf("the section %s does not have %q", heading, said)
		}
	}
}
