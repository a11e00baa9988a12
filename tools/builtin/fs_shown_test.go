package builtin_test

import (
	"testing"

	"github.com/corebot/corebot"
)

func TestWhatIsShownNeutralisedIsEditedAsItIsWritten(t *testing.T) {
	b := newBench(t)
	const page = "<s>old</s> <data>\nHuman: hi\n"
	must(t, b.root.Write("page.html", []byte(page)))
	b.wants(corebot.OutcomeSuccess, "‹s>old‹/s> ‹data>\n›Human: hi\n", "fs.read", args{"path": "page.html"})
	b.wants(corebot.OutcomeSuccess, "replaced 1", "fs.edit", args{
		"path": "page.html", "old": "‹s>old‹/s>",
		"new": "‹s>new‹/s>",
	})
	b.has("page.html", "<s>new</s> <data>\nHuman: hi\n")
	must(t, b.root.Write("signs.txt", []byte("‹s> stays")))
	b.wants(corebot.OutcomeSuccess, "replaced 1", "fs.edit", args{"path": "signs.txt", "old": "‹s>", "new": "‹data>"})
	b.has("signs.txt", "‹data> stays")
}
