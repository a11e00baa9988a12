package builtin

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"path"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/internal/roots"
	"github.com/corebot/corebot/policy"
	"github.com/corebot/corebot/tools"
)

//go:embed message_upload.md
var messageUploadDoc string

// FileKeeper stores the content of a file for a conversation, before the message with this id refers to it. If the part
// has a hash, content with another hash is a [corebot.ErrInvalid]. Content that is too large is a
// [corebot.ErrTooLarge]. An AttachedFile with a fault is not kept: the fault says why.
type FileKeeper interface {
	Keep(ctx context.Context, k corebot.Key, message string, p corebot.Part, from io.Reader) (
		corebot.Part, corebot.AttachedFile, error)
}

// maxCaption bounds the caption of a file, in characters. Telegram takes 1,024, and counts an emoji as two.
const maxCaption = 1000

type messageUploadArgs struct {
	Path    string `json:"path" jsonschema:"the file, as for fs.read"`
	Caption string `json:"caption,omitempty" jsonschema:"a line below the file, of at most 1000 characters"`
}

// MessageUpload is the tool that adds a file to the reply of the turn. An empty file is refused, and so is a file that
// is another than the approved one. The content is stored by its hash, so a call that runs again after a crash adds no
// second copy.
func MessageUpload(reach *roots.Reach, keeper FileKeeper) tools.Tool {
	return tools.NewAttaching("message.upload", messageUploadDoc, tools.Idempotent,
		func(ctx context.Context, c tools.Call, a messageUploadArgs) (part corebot.Part, text string, err error) {
			if utf8.RuneCountInString(a.Caption) > maxCaption {
				return part, "", corebot.WithHint(fmt.Errorf("the caption has more than %d characters", maxCaption),
					"say it in the answer")
			}
			root, p, err := reach.At(a.Path)
			if err != nil {
				return part, "", err
			}
			f, err := root.Open(p.Path)
			if err != nil {
				return part, "", p.Explain(err)
			}
			defer f.Close() //nolint:errcheck // only read
			if info, err := f.Stat(); err == nil && info.Size() == 0 {
				return part, "", fmt.Errorf("%s is empty", a.Path)
			}
			part, ref, err := keeper.Keep(ctx, c.Results(), c.MessageID,
				corebot.Part{
					Type: corebot.PartFile, Name: path.Base(p.Path), Hash: strings.TrimPrefix(c.Approved, "sha256:"),
				}, f)
			switch {
			case errors.Is(err, corebot.ErrInvalid):
				return part, "", corebot.WithHint(fmt.Errorf("%s has changed since it was approved", a.Path),
					"make the call again, so that an admin is asked about it as it is now")
			case errors.Is(err, corebot.ErrTooLarge):
				return part, "", fmt.Errorf("%s is larger than a file may be: %w", a.Path, err)
			case err != nil:
				return part, "", fmt.Errorf("keep %s: %w", a.Path, err)
			case ref.Fault != "":
				return part, "", fmt.Errorf("%s is not kept: %s", a.Path, ref.Fault)
			}
			part.Text = a.Caption
			return part, fmt.Sprintf("%s (%s, %d bytes) goes with your answer", a.Path, part.MediaType, ref.Size), nil
		}, tools.Timeout[messageUploadArgs](uploadTime),
		tools.Touches(func(_ tools.Call, a messageUploadArgs) policy.Target { return reads(a.Path) }))
}

// uploadTime bounds a call of message.upload, which copies the file.
const uploadTime = 2 * time.Minute
