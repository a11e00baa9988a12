package witness

import (
	"bytes"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/internal/owned"
)

// The files of the keys, in the home. The file of public keys has all keys that ever signed, the newest last.
const (
	KeyFile    = "audit.key"
	PublicFile = "audit.pub"
	// nextFile has a key until its public key is stored: a crash in between loses neither.
	nextFile = "audit.next.key"
)

const maxKeyFile = 64 << 10

var (
	// ErrLost is in the error of a home that has had a key and has it no more.
	ErrLost = errors.New("the key of the audit trail is lost")
	// ErrExposed is in the error of a key that others can read.
	ErrExposed = errors.New("the key of the audit trail can be read by others")
)

const newKeyHint = "`corebot audit key --new` makes a new one and writes that into the trail; keep the public keys"

// Key signs heads.
type Key struct {
	ID      string // of the public key
	private ed25519.PrivateKey
}

// IDOf is the short name of a public key.
func IDOf(public ed25519.PublicKey) string {
	sum := sha256.Sum256(public)
	return hex.EncodeToString(sum[:8])
}

// Public is the key with which signatures are checked.
func (k Key) Public() ed25519.PublicKey {
	return k.private.Public().(ed25519.PublicKey) //nolint:forcetypeassert // the type of every such key
}

// Load reads the key of a home, or makes one if the home never had any; made says so.
func Load(home string) (k Key, made bool, err error) {
	k, err = Look(home)
	switch _, missing := os.Lstat(filepath.Join(home, KeyFile)); {
	case errors.Is(err, fs.ErrNotExist):
		k, err = Make(home)
		made = err == nil
	case err == nil && errors.Is(missing, fs.ErrNotExist):
		err = os.Rename(filepath.Join(home, nextFile), filepath.Join(home, KeyFile))
	}
	return k, made, err
}

// Look reads the key of a home. A home that never had one is fs.ErrNotExist. A key that is lost is [ErrLost], and one
// that others can read is [ErrExposed].
func Look(home string) (k Key, err error) {
	path := filepath.Join(home, KeyFile)
	if _, err := os.Lstat(path); !errors.Is(err, fs.ErrNotExist) {
		return readKey(path)
	}
	public := filepath.Join(home, PublicFile)
	if _, err := os.Lstat(public); err != nil {
		return k, err
	}
	if k, err := readKey(filepath.Join(home, nextFile)); err == nil { // Make was cut off
		if keys, err := ReadKeys(public); err == nil && keys[k.ID] != nil {
			return k, nil
		}
	}
	return k, corebot.WithHint(fmt.Errorf("%w: %s is missing, and %s is there", ErrLost, path, PublicFile), newKeyHint)
}

func readKey(path string) (k Key, err error) {
	f, info, err := owned.Open(path)
	if err != nil {
		return k, fmt.Errorf("open the key of the audit trail: %w", err)
	}
	defer f.Close() //nolint:errcheck // only read
	if mode := info.Mode().Perm(); mode&0o077 != 0 {
		return k, corebot.WithHint(fmt.Errorf("%w: %s has the mode %#o", ErrExposed, path, mode),
			"chmod 600 "+path+"; if others may have read it, "+newKeyHint)
	}
	text, err := io.ReadAll(io.LimitReader(f, maxKeyFile))
	if err != nil {
		return k, fmt.Errorf("read the key of the audit trail: %w", err)
	}
	if k, err = parsePrivate(text); err != nil {
		err = corebot.WithHint(fmt.Errorf("read %s: %w", path, err), newKeyHint)
	}
	return k, err
}

func parsePrivate(text []byte) (k Key, err error) {
	block, _ := pem.Decode(text)
	if block == nil {
		return k, errors.New("it is no key in PEM")
	}
	parsed, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		return k, err
	}
	private, ok := parsed.(ed25519.PrivateKey)
	if !ok {
		return k, errors.New("it is no ed25519 key")
	}
	return Key{IDOf(private.Public().(ed25519.PublicKey)), private}, nil //nolint:forcetypeassert // its own
}

// Make makes a new key for a home, in the place of the old one. The public key stands behind the older ones.
func Make(home string) (k Key, err error) {
	public, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return k, fmt.Errorf("make a key: %w", err)
	}
	secret, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		return k, fmt.Errorf("encode a key: %w", err)
	}
	open, err := x509.MarshalPKIXPublicKey(public)
	if err != nil {
		return k, fmt.Errorf("encode a key: %w", err)
	}
	before, err := os.ReadFile(filepath.Join(home, PublicFile))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return k, fmt.Errorf("read the public keys of the audit trail: %w", err)
	}
	text := pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: secret})
	if err := replace(filepath.Join(home, nextFile), text, 0o600); err != nil {
		return k, err
	}
	// A key whose signatures nobody could check must not sign: it takes its place behind the public key.
	pub := append(before, pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: open})...)
	if err := replace(filepath.Join(home, PublicFile), pub, 0o600); err != nil {
		return k, err
	}
	if err := os.Rename(filepath.Join(home, nextFile), filepath.Join(home, KeyFile)); err != nil {
		return k, fmt.Errorf("write the key of the audit trail: %w", err)
	}
	return Key{IDOf(public), private}, nil
}

// replace writes a file whole, and then puts it in its place.
func replace(path string, text []byte, mode fs.FileMode) error {
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+"-*")
	if err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	_, err = f.Write(text)
	err = errors.Join(err, f.Chmod(mode), f.Sync(), f.Close())
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		return errors.Join(fmt.Errorf("write %s: %w", path, err), os.Remove(f.Name()))
	}
	return nil
}

// Keys are public keys by their ids.
type Keys map[string]ed25519.PublicKey

// ReadKeys reads a file with public keys in PEM.
func ReadKeys(path string) (Keys, error) {
	info, err := os.Stat(path)
	if err == nil && info.Size() > maxKeyFile {
		err = fmt.Errorf("it has %d bytes, the limit is %d", info.Size(), maxKeyFile)
	}
	var text []byte
	if err == nil {
		text, err = os.ReadFile(path)
	}
	if err != nil {
		return nil, fmt.Errorf("read the public keys: %w", err)
	}
	keys, err := ParseKeys(text)
	if err != nil {
		err = fmt.Errorf("read the public keys of %s: %w", path, err)
	}
	return keys, err
}

// ParseKeys reads public keys in PEM.
func ParseKeys(text []byte) (Keys, error) {
	keys := Keys{}
	for len(bytes.TrimSpace(text)) > 0 {
		block, rest := pem.Decode(text)
		if block == nil {
			return nil, fmt.Errorf("%w: it has something that is no key in PEM", corebot.ErrInvalid)
		}
		parsed, err := x509.ParsePKIXPublicKey(block.Bytes)
		public, ok := parsed.(ed25519.PublicKey)
		if err != nil || !ok {
			return nil, fmt.Errorf("%w: a key of it is no public ed25519 key", corebot.ErrInvalid)
		}
		keys[IDOf(public)] = public
		text = rest
	}
	if len(keys) == 0 {
		return nil, fmt.Errorf("%w: it has no key", corebot.ErrInvalid)
	}
	return keys, nil
}
