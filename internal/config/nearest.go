package config

import (
	"slices"

	"github.com/corebot/corebot/internal/nearest"
)

// nearestOf is the known name that a misspelt one is likely to mean, or empty if none is close: at most one edit for three letters, and one at least.
func nearestOf(misspelt string, known []string) string {
	name, edits := nearest.Name(misspelt, known)
	if 3*edits > max(len(misspelt)+1, 3) {
		return ""
	}
	return name
}

// whereAll says where every setting is listed, for a name that is like none of them.
const whereAll = "there is no such setting; `corebot config print` lists them all"

// meant is the hint about a name that is not known. full gives the whole name of one that is.
func meant(name string, known []string, full func(string) string) string {
	slices.Sort(known)
	if near := nearestOf(name, known); near != "" {
		return "did you mean \"" + full(near) + "\"?"
	}
	return whereAll
}
