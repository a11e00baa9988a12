package operate

import "fmt"

// MaxRows bounds the rows of one page.
const MaxRows = 1000

// Part says which part of a list is wanted.
type Part struct {
	After string `json:"after,omitempty"` // the Next of the page before; empty: the beginning
	Limit int    `json:"limit,omitempty"` // at most so many rows; 0, or more than [MaxRows], is MaxRows
}

// size is how many rows the page can have.
func (p Part) size() int {
	if p.Limit < 1 || p.Limit > MaxRows {
		return MaxRows
	}
	return p.Limit
}

// Page is one part of a list.
type Page[T any] struct {
	Rows []T    `json:"rows"`
	Next string `json:"next,omitempty"` // the cursor of the next page; empty: nothing is left
}

// pageOf is a page of what a store gave, each row as callers see it.
func pageOf[S, T any](found []S, next string, row func(S) T) Page[T] {
	p := Page[T]{Rows: make([]T, len(found)), Next: next}
	for i, f := range found {
		p.Rows[i] = row(f)
	}
	return p
}

// Done is the result of a change that has nothing else to tell.
type Done struct {
	Changed int    `json:"changed"`        // how many things it changed
	Left    int    `json:"left,omitempty"` // dead letters that stay because the queue has no room for them
	Why     string `json:"why,omitempty"`  // why the first of them stays
}

// each changes one thing after the other and stops at the first that fails. Earlier changes stay; the error counts them.
func each(ids []int64, change func(int64) error) (Done, error) {
	for n, id := range ids {
		if err := change(id); err != nil {
			if n > 0 {
				err = fmt.Errorf("%d changed, then: %w", n, err)
			}
			return Done{Changed: n}, err
		}
	}
	return Done{Changed: len(ids)}, nil
}
