package builtin

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/internal/outside"
	"github.com/corebot/corebot/internal/rootfs"
	"github.com/corebot/corebot/internal/roots"
	"github.com/corebot/corebot/policy"
	"github.com/corebot/corebot/tools"
)

//go:embed fs_edit.md
var editDoc string

type editArgs struct {
	Path       string `json:"path" jsonschema:"the file, in the workspace, or an absolute path"`
	Old        string `json:"old" jsonschema:"the text to replace, exactly as it stands in the file"`
	New        string `json:"new" jsonschema:"the text to put in its place"`
	ReplaceAll bool   `json:"replaceAll,omitempty" jsonschema:"replace every occurrence; without it there must be one"`
}

// Edit replaces text in a file. Run twice it could change what the first run wrote, so it is not run again after a
// crash.
func Edit(reach *roots.Reach) tools.Tool {
	return tools.New("fs.edit", editDoc, tools.SideEffect,
		func(_ context.Context, c tools.Call, a editArgs) (string, error) {
			var count int
			err := change(reach, a.Path, func(root *rootfs.Root, clean string) error {
				return root.Update(clean, maxFile, func(old []byte, exists bool) ([]byte, error) {
					if err := c.Unchanged(old, exists); err != nil {
						return nil, err
					}
					edited, n, err := a.edit(old, exists)
					count = n
					return edited, err
				})
			})
			if err != nil {
				return "", err
			}
			return fmt.Sprintf("replaced %d in %s", count, a.Path), nil
		}, tools.Touches(func(_ tools.Call, a editArgs) policy.Target { return writes(a.Path) }),
		tools.Changes(func(_ tools.Call, a editArgs) tools.Change {
			return tools.Change{Path: a.Path, Make: func(old []byte, exists bool) ([]byte, error) {
				edited, _, err := a.edit(old, exists)
				return edited, err
			}}
		}))
}

// edit is apply for a file that may be missing.
func (a editArgs) edit(old []byte, exists bool) ([]byte, int, error) {
	if !exists {
		return nil, 0, fs.ErrNotExist
	}
	return a.apply(old)
}

var (
	errEditEmpty  = errors.New("old is empty: say which text to replace")
	errEditSame   = errors.New("old and new are the same")
	errEditBinary = errors.New("it is a binary file")
)

// apply returns the edited file and how many places were replaced.
func (a editArgs) apply(file []byte) ([]byte, int, error) {
	switch {
	case a.Old == "":
		return nil, 0, errEditEmpty
	case a.Old == a.New:
		return nil, 0, errEditSame
	case !isText(file):
		return nil, 0, errEditBinary
	}
	text := string(file)
	n := strings.Count(text, a.Old)
	if asWritten := outside.Restore(a.Old); n == 0 && asWritten != a.Old { // a model copies what it was shown
		a.Old, a.New = asWritten, outside.Restore(a.New)
		n = strings.Count(text, a.Old)
	}
	if n == 0 {
		return nil, 0, corebot.WithHint(errors.New("old was not found"), a.advice(text))
	}
	if first, last := strings.Index(text, a.Old), strings.LastIndex(text, a.Old); first != last && !a.ReplaceAll {
		return nil, 0, corebot.WithHint(fmt.Errorf("old is not unique: it stands there %d times or overlaps itself", n),
			"give more of the text around it, or set replaceAll")
	}
	if size := len(text) + n*(len(a.New)-len(a.Old)); size > maxFile {
		return nil, 0, fmt.Errorf("the file %w: it would have %d bytes, the limit is %d", rootfs.ErrTooLarge, size,
			maxFile)
	}
	return []byte(strings.ReplaceAll(text, a.Old, a.New)), n, nil
}

// advice is what to do about a text that was not found. A carriage return is easily lost on the way to a model and
// back.
func (a editArgs) advice(text string) string {
	if strings.Contains(text, "\r\n") && strings.Contains(strings.ReplaceAll(text, "\r\n", "\n"), a.Old) {
		return `the lines of this file end in \r\n, those of old in \n`
	}
	return "read the file and copy the text exactly, with its spaces and line ends"
}
