package isolation

import "github.com/elastic/go-seccomp-bpf/arch"

// table has the numbers of this machine's calls.
var table = arch.AARCH64
