package matrix

import (
	"fmt"
	"os"
	"reflect"
	"strings"
	"testing"
)

// TestThePageNamesEverySettingAndEveryErrorOfAnAccount reads docs/channels.md.
func TestThePageNamesEverySettingAndEveryErrorOfAnAccount(t *testing.T) {
	text, err := os.ReadFile("../../docs/channels.md")
	if err != nil {
		t.Fatal(err)
	}
	_, page, _ := strings.Cut(string(text), "\n## Matrix\n")
	standard := reflect.ValueOf(Network().Standard)
	for i := range standard.NumField() {
		row := fmt.Sprintf("| `%s` | `%v` |", standard.Type().Field(i).Tag.Get("mapstructure"), standard.Field(i))
		row = strings.Replace(row, "| `` |", "| |", 1)
		if !strings.Contains(page, row) {
			t.Errorf("the page has no row %s", row)
		}
	}
	for _, err := range []error{revoked, expired, outside} {
		said, _, _ := strings.Cut(err.Error(), ":")
		if !strings.Contains(page, "\n| "+said) {
			t.Errorf("the page does not have %q", said)
		}
	}
}
