package config

import (
	"cmp"
	_ "embed"
	"reflect"
	"strings"
	"sync"
)

//go:embed settings.txt
var settingsText string

// texts are the texts of settings.txt, by struct and setting, such as "Bus.lease". Indented lines are the text of the
// name above them.
var texts = sync.OnceValue(func() map[string]string {
	all, name := map[string]string{}, ""
	for line := range strings.Lines(settingsText) {
		text := strings.TrimSpace(line)
		switch {
		case text == "" || strings.HasPrefix(line, "#"):
		case text == strings.TrimRight(line, "\n"):
			name = text
		case all[name] == "":
			all[name] = text
		default:
			all[name] += " " + text
		}
	}
	return all
})

// textOf says what a setting or a section of a struct is for. A network's own settings stand in a struct of another
// package. They have their texts in the tag doc.
func textOf(owner reflect.Type, f reflect.StructField) string {
	return cmp.Or(f.Tag.Get("doc"), texts()[owner.Name()+"."+f.Tag.Get("mapstructure")])
}
