package builtin

import (
	"context"
	_ "embed"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/corebot/corebot/internal/rootfs"
	"github.com/corebot/corebot/internal/roots"
	"github.com/corebot/corebot/policy"
	"github.com/corebot/corebot/tools"
)

//go:embed fs_list.md
var listDoc string

// listMax is how many entries one call shows.
const listMax = 500

type listArgs struct {
	Path  string `json:"path,omitempty" jsonschema:"a directory, as for fs.read; the workspace itself if left out"`
	After string `json:"after,omitempty" jsonschema:"show only names behind this one, to go on with a long listing"`
}

// dir is the directory that is meant.
func (a listArgs) dir() string {
	if a.Path == "" {
		return "."
	}
	return a.Path
}

// empty is what is said of a directory with nothing in it.
func (a listArgs) empty() string { return fmt.Sprintf("[%s is empty]", a.dir()) }

// List shows what is in a directory. Names are text, too. Those are not from outside that only admins
// give, as the pages of a new workspace have, and that untainted turns of the call's principal have given.
func List(reach *roots.Reach) tools.Tool {
	return tools.NewSourced("fs.list", listDoc, tools.ReadOnly,
		func(ctx context.Context, c tools.Call, a listArgs) (text string, outside bool, err error) {
			root, p, err := reach.At(a.dir())
			if err != nil {
				return "", false, tools.Own(err)
			}
			entries, more, err := root.List(p.Path, a.After, listMax)
			if err == nil {
				outside, err = namesOutside(ctx, c, p, entries)
			}
			if err != nil {
				return "", false, tools.Own(p.Explain(err))
			}
			return listing(a, entries, more), outside, nil
		}, tools.Touches(func(_ tools.Call, a listArgs) policy.Target { return reads(a.dir()) }),
		tools.Trusted(func(_ tools.Call, a listArgs) bool { return policy.OperatorsText(reads(a.dir())) }))
}

// namesOutside says whether others than the operator and the call's principal can have given one of the names.
func namesOutside(ctx context.Context, c tools.Call, in roots.Place, entries []rootfs.Entry) (bool, error) {
	if len(entries) == 0 || !in.InWorkspace() {
		return len(entries) > 0, nil
	}
	w, err := c.Written(ctx)
	return slices.ContainsFunc(entries, func(e rootfs.Entry) bool {
		name := path.Join(in.Path, e.Name)
		return name != rootfs.ChatsDir && !w.Named(name) && !policy.OperatorsText(reads(name))
	}), err
}

func listing(a listArgs, entries []rootfs.Entry, more int) string {
	switch {
	case len(entries) == 0 && a.After == "":
		return a.empty()
	case len(entries) == 0:
		return fmt.Sprintf("[%s has nothing behind %q]", a.dir(), a.After)
	}
	var b strings.Builder
	for _, e := range entries {
		if e.Dir {
			fmt.Fprintf(&b, "%s/\n", e.Name)
		} else {
			fmt.Fprintf(&b, "%s\t%d bytes\n", e.Name, e.Size)
		}
	}
	if more > 0 {
		fmt.Fprintf(&b, "[there are %d more; go on with after %q]\n", more, entries[len(entries)-1].Name)
	}
	return b.String()
}
