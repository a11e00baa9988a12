package corebot

import "strings"

// MatchesName says whether a pattern means a name: the pattern is the name, or a beginning of it and "*". Case counts.
func MatchesName(pattern, name string) bool {
	beginning, open := strings.CutSuffix(pattern, "*")
	return pattern == name || open && strings.HasPrefix(name, beginning)
}

// IsNamePattern says whether [MatchesName] can make sense of a pattern: it is not empty, and has a "*" at its end at most.
func IsNamePattern(pattern string) bool {
	return pattern != "" && !strings.Contains(strings.TrimSuffix(pattern, "*"), "*")
}
