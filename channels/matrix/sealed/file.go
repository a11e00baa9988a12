//go:build matrixcrypto

package sealed

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"maunium.net/go/mautrix/crypto/attachment"
)

// SealFile makes a key for one file, which encrypts it. The file is read to its end, for the hash of its ciphertext. A
// content that differs when it is read again is refused by whoever gets it.
func SealFile(content io.Reader) (*FileKey, error) {
	k := &FileKey{attachment.NewEncryptedFile()}
	r := k.file.EncryptStream(content)
	if _, err := io.Copy(io.Discard, r); err != nil {
		return nil, err
	}
	return k, r.Close()
}

// FileKey opens or encrypts one file.
type FileKey struct{ file *attachment.EncryptedFile }

// Seal encrypts the content that the key was made for, from its beginning.
func (k *FileKey) Seal(content io.Reader) io.Reader {
	again := *k.file // the hash of the first reading stays
	return again.EncryptStream(content)
}

// Said is what an event says of the file at an address: all that it takes to read it.
func (k *FileKey) Said(address string) any {
	return struct {
		*attachment.EncryptedFile
		URL string `json:"url"`
	}{k.file, address}
}

// FileKeyOf reads what an event says of a file. An encryption that this program does not know is an error.
func FileKeyOf(said json.RawMessage) (*FileKey, error) {
	k := &FileKey{&attachment.EncryptedFile{}}
	err := json.Unmarshal(said, k.file)
	if err == nil {
		err = k.file.PrepareForDecryption()
	}
	if err != nil {
		return nil, fmt.Errorf("the key of a file: %w", err)
	}
	return k, nil
}

// Open decrypts a content. Its end is the error forged if the content is not what its sender has encrypted. Then the
// reader has to drop all of it.
func (k *FileKey) Open(content io.ReadCloser, forged error) io.ReadCloser {
	return &opening{from: content, clear: k.file.DecryptStream(struct{ io.Reader }{content}), forged: forged}
}

type opening struct {
	from   io.ReadCloser
	clear  io.ReadCloser // closing it compares the hashes
	forged error
	ended  error
}

func (o *opening) Read(b []byte) (n int, err error) {
	if o.ended != nil {
		return 0, o.ended
	}
	if n, err = o.clear.Read(b); errors.Is(err, io.EOF) && o.clear.Close() != nil {
		err = o.forged
	}
	o.ended = err
	return n, err
}

func (o *opening) Close() error { return o.from.Close() }
