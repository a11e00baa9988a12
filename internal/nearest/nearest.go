// Package nearest finds the known name that a misspelt one was meant to be.
package nearest

import "strings"

// Name is the known name with the fewest edits from a misspelt one, and how many edits those are. Of several it is the
// first that the misspelt one begins, or else the first. Without known names it is empty.
func Name(misspelt string, known []string) (name string, edits int) {
	for i, k := range known {
		d := distance(misspelt, k)
		begun := strings.HasPrefix(k, misspelt) && !strings.HasPrefix(name, misspelt)
		if i == 0 || d < edits || d == edits && begun {
			name, edits = k, d
		}
	}
	return name, edits
}

// distance is the Levenshtein distance in bytes.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := 1
			if a[i] == b[j] {
				cost = 0
			}
			diagonal, row[j+1] = row[j+1], min(row[j+1]+1, row[j]+1, diagonal+cost)
		}
	}
	return row[len(b)]
}
