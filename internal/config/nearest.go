package config

import "github.com/corebot/corebot/internal/nearest"

// nearestOf is the known name that a misspelt one is most like.
func nearestOf(misspelt string, known []string) string {
	name, _ := nearest.Name(misspelt, known)
	return name
}
