package pack

import (
	"archive/tar"
	"archive/zip"
	"bufio"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"path"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/corebot/corebot"
)

// open finds out what a source is, by what is in it and not by its name.
func open(from string) (source, error) {
	info, err := os.Stat(from)
	if err != nil {
		return nil, corebot.WithHint(err, "name a directory, a .zip, a .tar or a .tar.gz on this machine")
	}
	if info.IsDir() {
		return folder(from), nil
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%w: %s is neither a directory nor a file", corebot.ErrInvalid, from)
	}
	f, err := os.Open(from)
	if err != nil {
		return nil, err
	}
	defer f.Close() //nolint:errcheck // only read
	head := make([]byte, 512)
	n, err := io.ReadFull(f, head)
	if err != nil && !errors.Is(err, io.ErrUnexpectedEOF) && !errors.Is(err, io.EOF) {
		return nil, err
	}
	head = head[:n]
	switch {
	case bytes.HasPrefix(head, []byte("PK")):
		return zipFile(from), nil
	case bytes.HasPrefix(head, []byte{0x1f, 0x8b}), len(head) > 262 && string(head[257:262]) == "ustar":
		return tarFile(from), nil
	}
	return nil, corebot.WithHint(fmt.Errorf("%w: %s is no archive that can be read", corebot.ErrInvalid, from),
		"a .zip, a .tar or a .tar.gz can; of a single SKILL.md name the directory")
}

// limited reads at most limit bytes. More is [corebot.ErrTooLarge], whatever the archive says of the size.
func limited(r io.Reader, limit int64) ([]byte, error) {
	data, err := io.ReadAll(io.LimitReader(r, limit+1))
	if err == nil && int64(len(data)) > limit {
		err = fmt.Errorf("%w: the limit is %d bytes", corebot.ErrTooLarge, limit)
	}
	return data, err
}

// folder is a directory. No link is followed, and no name leads out of it.
type folder string

func (d folder) String() string { return string(d) }

func (d folder) walk(fn func(string, bool, func(int64) ([]byte, error)) error) error {
	root, err := os.OpenRoot(string(d))
	if err != nil {
		return err
	}
	defer root.Close() //nolint:errcheck // only read
	return fs.WalkDir(root.FS(), ".", func(name string, e fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case e.IsDir() && isGit(e.Name()):
			return fs.SkipDir
		case e.IsDir():
			return nil
		}
		return fn(name, e.Type().IsRegular(), func(limit int64) ([]byte, error) { return readIn(root, name, limit) })
	})
}

// readIn reads a file of a directory. Somebody can have put a pipe or a device in its place since it was listed: that
// is refused, and nobody waits for a pipe's other end.
func readIn(root *os.Root, name string, limit int64) ([]byte, error) {
	f, err := root.OpenFile(name, os.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close() //nolint:errcheck // only read
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = fmt.Errorf("%w: %s is no file", corebot.ErrInvalid, name)
	}
	if err != nil {
		return nil, err
	}
	return limited(f, limit)
}

// commit reads what a git checkout has checked out, without running git.
func (d folder) commit() string {
	root, err := os.OpenRoot(filepath.Join(string(d), ".git"))
	if err != nil {
		return ""
	}
	defer root.Close() //nolint:errcheck // only read
	text := func(name string, limit int64) string {
		data, _ := readIn(root, filepath.FromSlash(name), limit)
		return strings.TrimSpace(string(data))
	}
	head := text("HEAD", maxRef)
	if ref, is := strings.CutPrefix(head, "ref: "); is && fs.ValidPath(ref) {
		if head = text(ref, maxRef); head == "" {
			head = packedRef(text("packed-refs", maxPackedRefs), ref)
		}
	}
	if len(head) != 40 && len(head) != 64 || strings.Trim(head, "0123456789abcdef") != "" {
		return ""
	}
	return head
}

const (
	maxRef        = 4 << 10 // bytes of a file that names a commit
	maxPackedRefs = 4 << 20 // bytes of the file in which git gathers many of them
)

// packedRef is the commit of a branch in the file in which `git gc` gathers branches.
func packedRef(refs, ref string) string {
	for line := range strings.Lines(refs) {
		if commit, name, _ := strings.Cut(strings.TrimSpace(line), " "); name == ref {
			return commit
		}
	}
	return ""
}

type zipFile string

func (z zipFile) String() string { return string(z) }
func (z zipFile) commit() string { return "" }

func (z zipFile) walk(fn func(string, bool, func(int64) ([]byte, error)) error) error {
	file, err := os.Open(string(z))
	if err != nil {
		return err
	}
	defer file.Close() //nolint:errcheck // only read
	info, err := file.Stat()
	if err != nil {
		return err
	}
	in := &directory{ReaderAt: file, left: maxDirectory}
	r, err := zip.NewReader(in, info.Size())
	if err != nil {
		return fmt.Errorf("read %s: %w", z, err)
	}
	in.left = math.MaxInt64 // its files have limits of their own
	for _, f := range r.File {
		if strings.HasSuffix(f.Name, "/") {
			continue
		}
		err := fn(plainName(f.Name), f.Mode().IsRegular(), func(limit int64) ([]byte, error) {
			in, err := f.Open()
			if err != nil {
				return nil, err
			}
			defer in.Close() //nolint:errcheck // only read
			return limited(in, limit)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// maxDirectory bounds the directory of a .zip, in bytes: it is read into memory as a whole.
const maxDirectory = 8 << 20

// directory is an archive that is read no further than its directory may be long.
type directory struct {
	io.ReaderAt
	left int64
}

func (d *directory) ReadAt(p []byte, at int64) (int, error) {
	if d.left -= int64(len(p)); d.left < 0 {
		return 0, fmt.Errorf("%w: its directory has more than %d MiB", corebot.ErrTooLarge, maxDirectory>>20)
	}
	return d.ReaderAt.ReadAt(p, at)
}

type tarFile string

func (t tarFile) String() string { return string(t) }
func (t tarFile) commit() string { return "" }

// maxUnpacked bounds what a compressed archive unpacks to, also on the way past files that nobody wants.
const maxUnpacked = 64 << 20

func (t tarFile) walk(fn func(string, bool, func(int64) ([]byte, error)) error) error {
	f, err := os.Open(string(t))
	if err != nil {
		return err
	}
	defer f.Close() //nolint:errcheck // only read
	in := bufio.NewReader(f)
	var unpacked io.Reader = in
	if head, _ := in.Peek(2); bytes.Equal(head, []byte{0x1f, 0x8b}) {
		g, err := gzip.NewReader(in)
		if err != nil {
			return fmt.Errorf("read %s: %w", t, err)
		}
		unpacked = &bounded{g, maxUnpacked}
	}
	for r := tar.NewReader(unpacked); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("read %s: %w", t, err)
		}
		if h.Typeflag == tar.TypeDir || h.Typeflag == tar.TypeXGlobalHeader {
			continue
		}
		if err := fn(plainName(h.Name), h.Typeflag == tar.TypeReg, func(limit int64) ([]byte, error) {
			return limited(r, limit)
		}); err != nil {
			return err
		}
	}
}

// bounded ends with an error once more was read than a source may unpack to.
type bounded struct {
	io.Reader
	left int64
}

func (b *bounded) Read(p []byte) (int, error) {
	if b.left <= 0 {
		return 0, fmt.Errorf("%w: it unpacks to more than %d MiB", corebot.ErrTooLarge, maxUnpacked>>20)
	}
	n, err := b.Reader.Read(p[:min(int64(len(p)), b.left)])
	b.left -= int64(n)
	return n, err
}

// plainName takes the "./" off that some archivers write. Everything else stays as it is, and is judged later.
func plainName(name string) string {
	if rest, dotted := strings.CutPrefix(name, "./"); dotted && rest == path.Clean(rest) {
		return rest
	}
	return name
}
