package vfstest

import (
	"maps"
	"math/rand/v2"
	"slices"
)

// sector is the piece of a write that arrives whole or not at all.
const sector = 512

// Disk is what a recording has brought to disk up to a moment, and what is under way. It is not safe for concurrent
// use.
type Disk struct {
	// IgnoreSyncs makes a disk that reports every sync and does none: the control that shows what the syncs are for.
	// Set it before the first [Disk.Advance].
	IgnoreSyncs bool

	events  []event
	at      int
	inodes  map[int]*inode
	durable map[string]int // names on disk
	pending []naming
}

// naming is a change of the directory that is not on disk for sure. The inode of a deleted name is none.
type naming struct {
	name  string
	inode int
}

const none = -1

// inode is the content of a file, whatever its name.
type inode struct {
	base []byte   // on disk
	log  []change // after it, in order
}

// change is a write or truncate, and how sure it is.
type change struct {
	event
	fate fate
}

type fate uint8

const (
	underWay fate = iota // a sync will make it last
	lasting
	doubtful // its sync failed: for good it may be there or not
)

// Disk is the disk as it was when the recording began.
func (r *Recording) Disk() *Disk {
	r.mu.Lock()
	defer r.mu.Unlock()
	d := &Disk{events: slices.Clip(r.events), inodes: map[int]*inode{}, durable: map[string]int{}}
	for i, name := range r.before.names() {
		d.inodes[i] = &inode{base: slices.Clone(r.before[name])}
		d.durable[name] = i
	}
	return d
}

// Advance replays the recording up to a position of [Recording.Len]; it does not go back.
func (d *Disk) Advance(position int) {
	for ; d.at < min(position, len(d.events)); d.at++ {
		d.apply(d.events[d.at])
	}
}

func (d *Disk) apply(e event) {
	switch e.verb {
	case created:
		d.file(e.inode)
		d.pending = append(d.pending, naming{e.name, e.inode})
	case deleted:
		d.pending = append(d.pending, naming{e.name, none})
	case wrote, truncated:
		n := d.file(e.inode)
		n.log = append(n.log, change{event: e})
	case synced:
		if !d.IgnoreSyncs {
			d.file(e.inode).settle(lasting)
		}
	case syncFailed:
		d.file(e.inode).settle(doubtful)
	case syncedDir:
		if d.IgnoreSyncs {
			return
		}
		for _, n := range d.pending {
			name(d.durable, n)
		}
		d.pending = d.pending[:0]
	}
}

// file returns an inode. A new inode is empty.
func (d *Disk) file(i int) *inode {
	if d.inodes[i] == nil {
		d.inodes[i] = &inode{}
	}
	return d.inodes[i]
}

func name(dir map[string]int, n naming) {
	if n.inode == none {
		delete(dir, n.name)
	} else {
		dir[n.name] = n.inode
	}
}

// settle decides about everything under way, and forgets how the part came about that is now sure.
func (n *inode) settle(f fate) {
	sure := 0
	for i := range n.log {
		if n.log[i].fate == underWay {
			n.log[i].fate = f
		}
		if sure == i && n.log[i].fate == lasting {
			sure++
		}
	}
	if sure == 0 {
		return
	}
	for _, c := range n.log[:sure] {
		n.base = c.onto(n.base, nil)
	}
	n.log = slices.Clone(n.log[sure:])
}

// Cut makes the files as a power cut at this moment could leave them, by the model of the package documentation. The
// disk stays as it is: one moment has many cuts.
func (d *Disk) Cut(chance *rand.Rand) Files {
	dir := maps.Clone(d.durable)
	lost := map[string]bool{} // names of which a change was lost: later changes are lost too
	patience := chance.Float64()
	for _, n := range d.pending {
		lost[n.name] = lost[n.name] || chance.Float64() > patience
		if !lost[n.name] {
			name(dir, n)
		}
	}
	files := Files{}
	for _, name := range slices.Sorted(maps.Keys(dir)) { // the same chance makes the same cut
		files[name] = d.inodes[dir[name]].cut(chance)
	}
	return files
}

// Whole makes the files as they are when nothing is lost: as a crash of the program alone would leave them.
func (d *Disk) Whole() Files {
	dir := maps.Clone(d.durable)
	for _, n := range d.pending {
		name(dir, n)
	}
	files := Files{}
	for name, inode := range dir {
		content := slices.Clone(d.inodes[inode].base)
		for _, c := range d.inodes[inode].log {
			content = c.onto(content, nil)
		}
		files[name] = content
	}
	return files
}

// survival says which of the calls under way in a file have come through, and of those which pieces.
type survival struct {
	call, piece func(call int) bool
}

// chooseSurvival picks one of the ways in which a power cut treats what is under way in a file.
func chooseSurvival(chance *rand.Rand, calls int) survival {
	odds, last := chance.Float64(), chance.IntN(calls+1)
	all := func(int) bool { return true }
	some := func(int) bool { return chance.Float64() < odds }
	upToLast := func(call int) bool { return call <= last }
	lastIsTorn := func(call int) bool { return call < last || some(call) }
	ways := []survival{
		{func(int) bool { return false }, all}, // nothing
		{all, all},                             // everything
		{upToLast, all},
		{upToLast, lastIsTorn},
		{some, all},
		{all, some},
	}
	return ways[chance.IntN(len(ways))]
}

// cut is the content after a power cut.
func (n *inode) cut(chance *rand.Rand) []byte {
	content := slices.Clone(n.base)
	if len(n.log) == 0 {
		return content
	}
	survives := chooseSurvival(chance, len(n.log))
	fill := filler(chance)
	size := len(content) // that the file may have, its content arrived or not
	for i, c := range n.log {
		size = max(size, c.end())
		sure := c.fate == lasting
		if !sure && !survives.call(i) {
			continue
		}
		for _, piece := range c.pieces() {
			if sure || survives.piece(i) {
				content = piece.onto(content, fill)
			}
		}
		if c.verb == truncated {
			size = min(size, len(content))
		}
	}
	if chance.IntN(4) == 0 { // it had grown before its content arrived
		content = grow(content, size, fill)
	}
	return content
}

// filler makes what is read where a file has grown and nothing was written: zeros, or garbage.
func filler(chance *rand.Rand) func([]byte) {
	if chance.IntN(2) == 0 {
		return nil
	}
	return func(hole []byte) {
		for i := range hole {
			hole[i] = byte(chance.Uint32())
		}
	}
}

func (c change) end() int { return int(c.offset) + len(c.data) }

// pieces are the parts of a write that fall into different sectors of the file. A truncate is one piece.
func (c change) pieces() []change {
	if c.verb == truncated {
		return []change{c}
	}
	var out []change
	for from := 0; from < len(c.data); {
		to := min(len(c.data), from+sector-(int(c.offset)+from)%sector)
		piece := c
		piece.offset, piece.data = c.offset+int64(from), c.data[from:to]
		out = append(out, piece)
		from = to
	}
	return out
}

// onto makes the change. The content is overwritten in place.
func (c change) onto(content []byte, fill func([]byte)) []byte {
	if c.verb == truncated {
		return grow(content[:min(len(content), int(c.offset))], int(c.offset), fill)
	}
	content = grow(content, c.end(), fill)
	copy(content[c.offset:], c.data)
	return content
}

func grow(content []byte, size int, fill func([]byte)) []byte {
	had := len(content)
	if size <= had {
		return content
	}
	content = slices.Grow(content, size-had)[:size]
	clear(content[had:])
	if fill != nil {
		fill(content[had:])
	}
	return content
}
