package builtin

import (
	"context"
	_ "embed"
	"fmt"

	"github.com/corebot/corebot/internal/rootfs"
	"github.com/corebot/corebot/internal/roots"
	"github.com/corebot/corebot/policy"
	"github.com/corebot/corebot/tools"
)

//go:embed fs_write.md
var writeDoc string

type writeArgs struct {
	Path    string `json:"path" jsonschema:"the file, in the workspace, or an absolute path"`
	Content string `json:"content" jsonschema:"the whole new content"`
}

// Write puts a whole file in place. The arguments say all of what it will hold, so a second run changes nothing.
func Write(reach *roots.Reach) tools.Tool {
	return tools.New("fs.write", writeDoc, tools.Idempotent,
		func(_ context.Context, c tools.Call, a writeArgs) (string, error) {
			data, err := a.make(nil, false)
			if err != nil {
				return "", err
			}
			err = change(reach, a.Path, func(root *rootfs.Root, clean string) error {
				if c.Approved == "" {
					return root.Write(clean, data)
				}
				return root.Update(clean, tools.MaxApproved, func(old []byte, exists bool) ([]byte, error) {
					return data, c.Unchanged(old, exists)
				})
			})
			if err != nil {
				return "", err
			}
			return fmt.Sprintf("wrote %d bytes to %s", len(a.Content), a.Path), nil
		}, tools.Touches(func(_ tools.Call, a writeArgs) policy.Target { return writes(a.Path) }),
		tools.Changes(func(_ tools.Call, a writeArgs) tools.Change { return tools.Change{Path: a.Path, Make: a.make} }))
}

func (a writeArgs) make([]byte, bool) ([]byte, error) {
	if len(a.Content) > maxFile {
		return nil, fmt.Errorf("write %s: the content %w: %d bytes, the limit is %d", a.Path, rootfs.ErrTooLarge,
			len(a.Content), maxFile)
	}
	return []byte(a.Content), nil
}
