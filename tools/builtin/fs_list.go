package builtin

import (
	"context"
	_ "embed"
	"fmt"
	"strings"

	"github.com/corebot/corebot/internal/rootfs"
	"github.com/corebot/corebot/policy"
	"github.com/corebot/corebot/tools"
)

//go:embed fs_list.md
var listDoc string

// listMax is how many entries one call shows.
const listMax = 500

type listArgs struct {
	Path string `json:"path,omitempty" jsonschema:"the directory, relative to the workspace; the workspace itself if left out"`
}

// dir is the directory that is meant.
func (a listArgs) dir() string {
	if a.Path == "" {
		return "."
	}
	return a.Path
}

// List shows what is in a directory.
func List(root *rootfs.Root) tools.Tool {
	return tools.New("fs.list", listDoc, tools.ReadOnly, func(_ context.Context, _ tools.Call, a listArgs) (string, error) {
		entries, more, err := root.List(a.dir(), listMax)
		if err != nil {
			return "", err
		}
		return listing(a.dir(), entries, more), nil
	}, tools.Touches(func(_ tools.Call, a listArgs) policy.Target { return reads(a.dir()) }))
}

func listing(dir string, entries []rootfs.Entry, more bool) string {
	if len(entries) == 0 {
		return fmt.Sprintf("[%s is empty]", dir)
	}
	var b strings.Builder
	for _, e := range entries {
		if e.Dir {
			fmt.Fprintf(&b, "%s/\n", e.Name)
		} else {
			fmt.Fprintf(&b, "%s\t%d bytes\n", e.Name, e.Size)
		}
	}
	if more {
		fmt.Fprintf(&b, "[there are more than these %d]\n", len(entries))
	}
	return b.String()
}
