// Package sorted sorts lists of structs with little code. The compiler makes the functions of slices.SortFunc anew for
// each type of element, which takes some 20 KB of the program for a struct. [By] shares one sort among all types. It is
// slower: a long list on the way of a message takes slices.
package sorted

import "sort"

// By sorts a list. Elements that compare as equal keep their order.
func By[E any](list []E, compare func(a, b E) int) {
	sort.SliceStable(list, func(i, j int) bool { return compare(list[i], list[j]) < 0 })
}
