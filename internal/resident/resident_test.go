package resident

import (
	"slices"
	"strings"
	"testing"
)

// smaps has the mappings of a program that is linked to run at any address. Pages of a file that was written a moment
// ago are dirty.
const smaps = `55d0c8000000-55d0c8100000 r--p 00000000 fe:00 1311 /usr/bin/corebot
Rss:                 512 kB
Private_Dirty:        64 kB
Anonymous:             0 kB
Swap:                  0 kB
55d0c8100000-55d0c8200000 r-xp 00100000 fe:00 1311 /usr/bin/corebot
Private_Dirty:         0 kB
Anonymous:             0 kB
Swap:                  0 kB
VmFlags: rd ex mr mw me sd
55d0c8200000-55d0c8210000 r--p 00200000 fe:00 1311 /usr/bin/corebot
Private_Dirty:        64 kB
Anonymous:            64 kB
Swap:                  0 kB
55d0c8210000-55d0c8220000 r--p 00210000 fe:00 1311 /usr/bin/corebot
Private_Dirty:         0 kB
Anonymous:             0 kB
Swap:                 64 kB
55d0c8220000-55d0c8230000 rw-p 00220000 fe:00 1311 /usr/bin/corebot
Private_Dirty:         0 kB
Anonymous:             0 kB
55d0c8230000-55d0c8240000 r--s 00230000 fe:00 1311 /usr/bin/corebot
Anonymous:             0 kB
c000000000-c000400000 rw-p 00000000 00:00 0 
Anonymous:          4096 kB
7f0000000000-7f0000100000 r--p 00000000 fe:00 99 /usr/lib/of a name/corebot
Anonymous:             0 kB
7f0000200000-7f0000300000 r-xp 00000000 fe:00 98 /usr/bin/corebot (deleted)
Anonymous:             0 kB
7ffd00000000-7ffd00021000 r-xp 00000000 00:00 0                          [vdso]
Anonymous:             0 kB
`

func TestOnlyMappingsThatHoldWhatTheFileHasAreFound(t *testing.T) {
	for file, want := range map[string][]mapping{
		"/usr/bin/corebot":           {{0x55d0c8000000, 0x55d0c8100000}, {0x55d0c8100000, 0x55d0c8200000}},
		"/usr/bin/corebot (deleted)": {{0x7f0000200000, 0x7f0000300000}},
		"/usr/lib/of a name/corebot": {{0x7f0000000000, 0x7f0000100000}},
		"/usr/bin":                   nil,
		"":                           nil,
	} {
		if got, err := ofFile(strings.NewReader(smaps), file); err != nil || !slices.Equal(got, want) {
			t.Errorf("of %q: %x, %v; want %x", file, got, err, want)
		}
	}
}

func TestATextThatIsNoListOfMappingsIsAnError(t *testing.T) {
	for _, text := range []string{"x", "1-2 r-xp 0", "g-2 r-xp 00000000 fe:00 1 /p", "1- r-xp 00000000 fe:00 1 /p"} {
		if got, err := ofFile(strings.NewReader(text), "/p"); err == nil {
			t.Errorf("%q gave %x", text, got)
		}
	}
}
