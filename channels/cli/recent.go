package cli

// recentIDs is how many ids a [recent] remembers: more than a lane holds, so that what is forgotten is long over.
const recentIDs = 4096

// recent remembers the last ids that were added. The zero recent is empty.
type recent struct {
	ids  map[string]struct{}
	ring []string
	next int
}

func (r *recent) has(id string) bool {
	_, ok := r.ids[id]
	return ok
}

// add reports whether id is new.
func (r *recent) add(id string) bool {
	if r.has(id) {
		return false
	}
	if r.ids == nil {
		r.ids = make(map[string]struct{})
	}
	if len(r.ring) < recentIDs {
		r.ring = append(r.ring, id)
	} else {
		delete(r.ids, r.ring[r.next])
		r.ring[r.next] = id
		r.next = (r.next + 1) % recentIDs
	}
	r.ids[id] = struct{}{}
	return true
}
