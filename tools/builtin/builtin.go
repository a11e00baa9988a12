// Package builtin holds the tools that come with Corebot. A tool, or a family of tools, is one Go file. Each tool has a
// Markdown file, which the model reads.
//
// The tools act on the workspace, and on the directories that the operator has opened, through one shared
// roots.Reach. It refuses paths that lead out, and keeps concurrent changes of one file from losing each other.
// Policy decides who may do what: a tool only says what it touches.
package builtin

import (
	"bytes"
	"unicode/utf8"

	"github.com/corebot/corebot/agent/memory"
	"github.com/corebot/corebot/internal/rootfs"
	"github.com/corebot/corebot/internal/roots"
	"github.com/corebot/corebot/internal/runes"
	"github.com/corebot/corebot/policy"
	"github.com/corebot/corebot/tools"
)

// maxFile is the largest file that a tool writes or edits, in bytes.
const maxFile = 1 << 20

// Workspace lists the tools that act on files and memory. The documents can be missing.
func Workspace(reach *roots.Reach, pages *memory.Store, docs Documents) []tools.Tool {
	return []tools.Tool{
		Read(reach, docs), Write(reach), Edit(reach), Delete(reach), Mkdir(reach), Move(reach), List(reach),
		Search(reach),
		MemoryRead(pages), MemoryWrite(pages), MemorySearch(pages),
	}
}

// change does work on a place that a path means. An error names the place.
func change(reach *roots.Reach, path string, work func(root *rootfs.Root, clean string) error) error {
	root, p, err := reach.Writable(path)
	if err != nil {
		return err
	}
	return p.Explain(work(root, p.Path))
}

// reads and writes are what a call touches.
func reads(path string) policy.Target  { return policy.Target{Path: path} }
func writes(path string) policy.Target { return policy.Target{Path: path, Write: true} }

// isText says whether data can be shown: UTF-8 without NUL bytes.
func isText(data []byte) bool {
	return utf8.Valid(data) && bytes.IndexByte(data, 0) < 0
}

// wholeRunes drops the bytes of characters that are cut at either end of a piece; skipped is how many at the beginning.
func wholeRunes(data []byte) (whole []byte, skipped int) {
	for skipped < len(data) && skipped < utf8.UTFMax-1 && !utf8.RuneStart(data[skipped]) {
		skipped++
	}
	return runes.Whole(data[skipped:]), skipped
}
