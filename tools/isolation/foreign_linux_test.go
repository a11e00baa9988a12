package isolation

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"os"
	"path/filepath"
	"runtime"
	"testing"
	"time"
)

// TestACallOfAnotherArchitectureIsTheProgramsLast: amd64 kernels take calls of 32-bit programs from 64-bit ones too, by
// numbers that mean something else.
func TestACallOfAnotherArchitectureIsTheProgramsLast(t *testing.T) {
	if runtime.GOARCH != "amd64" {
		t.Skip("only amd64 has another architecture's calls")
	}
	path := filepath.Join(t.TempDir(), "foreign")
	must(t, os.WriteFile(path, programOf(
		0xb8, 20, 0, 0, 0, // mov eax, 20: getpid of 32-bit programs, 64 of ours
		0xcd, 0x80, // int 0x80
		0xb8, 60, 0, 0, 0, 0x31, 0xff, // mov eax, 60 (exit); xor edi, edi
		0x0f, 0x05, // syscall
	), 0o755))
	openDirectories(t, filepath.Dir(path), 0o755)
	inEachMode(t, Options{Allow: []string{path}}, func(t *testing.T, r *Runner) {
		if end := run(t, r, 10*time.Second, path); end.Signal != "bad system call" {
			t.Errorf("got %+v", end)
		}
	})
}

// programOf is a program that consists of some code.
func programOf(code ...byte) []byte {
	const base, header = 0x400000, 64 + 56
	var out bytes.Buffer
	size := uint64(header + len(code))
	for _, part := range []any{
		elf.Header64{
			Ident: [16]byte{0x7f, 'E', 'L', 'F', 2, 1, 1}, Type: uint16(elf.ET_EXEC), Machine: uint16(elf.EM_X86_64),
			Version: 1, Entry: base + header, Phoff: 64, Ehsize: 64, Phentsize: 56, Phnum: 1,
		},
		elf.Prog64{
			Type: uint32(elf.PT_LOAD), Flags: uint32(elf.PF_R | elf.PF_X), Vaddr: base, Paddr: base,
			Filesz: size, Memsz: size, Align: 4096,
		},
		code,
	} {
		if err := binary.Write(&out, binary.LittleEndian, part); err != nil {
			panic(err) // into memory
		}
	}
	return out.Bytes()
}
