package egress

import (
	"bufio"
	"compress/flate"
	"compress/gzip"
	"compress/zlib"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"strings"
)

// acceptEncoding are the compressions that readBody undoes.
const acceptEncoding = "gzip, deflate"

// sniffed is how many bytes tell what a body is that came without a type.
const sniffed = 512

// read takes what is wanted of an answer.
func (c *Client) read(answer *http.Response, wants func(string) bool) (Response, error) {
	out := Response{
		URL: answer.Request.URL, Status: answer.StatusCode, Header: answer.Header,
		ContentType: answer.Header.Get("Content-Type"),
	}
	out.MediaType = mediaType(out.ContentType)
	wanted := func() bool { return wants == nil || wants(out.MediaType) }
	if out.MediaType != "" && !wanted() {
		return out, nil
	}
	body, cut, err := readBody(answer, c.opts.MaxBody)
	if err != nil {
		return Response{}, fmt.Errorf("read the answer: %w", err)
	}
	if out.MediaType == "" {
		out.MediaType = mediaType(http.DetectContentType(body[:min(len(body), sniffed)]))
		if !wanted() {
			return out, nil
		}
	}
	out.Body, out.Cut = body, cut
	return out, nil
}

// mediaType is a Content-Type without its parameters, also where they are broken; empty if there is none.
func mediaType(header string) string {
	if kind, _, err := mime.ParseMediaType(header); err == nil || errors.Is(err, mime.ErrInvalidMediaParameter) {
		return kind
	}
	kind, _, _ := strings.Cut(header, ";")
	return strings.ToLower(strings.TrimSpace(kind))
}

// readBody reads and decompresses at most limit bytes. The limit holds on both sides: a bomb ends when it has unfolded
// that far, and a stream that unfolds to nothing when that much has come.
func readBody(answer *http.Response, limit int64) (body []byte, cut bool, err error) {
	wire := &io.LimitedReader{R: answer.Body, N: limit + 1}
	plain, err := decompress(wire, answer.Header.Values("Content-Encoding"))
	if err == nil {
		body, err = io.ReadAll(io.LimitReader(plain, limit+1))
	}
	switch {
	case wire.N == 0 || int64(len(body)) > limit: // where it was cut, a decompressor misses the rest
		return body[:min(int64(len(body)), limit)], true, nil
	case errors.Is(err, io.ErrUnexpectedEOF):
		return nil, false, errors.New("it ended early")
	}
	return body, false, err
}

// decompress undoes one compression that was asked for. An answer without a body has nothing to undo.
func decompress(r io.Reader, encodings []string) (io.Reader, error) {
	name := strings.ToLower(strings.TrimSpace(strings.Join(encodings, ",")))
	if name == "" || name == "identity" {
		return r, nil
	}
	in := bufio.NewReader(r)
	head, err := in.Peek(2)
	if len(head) == 0 && errors.Is(err, io.EOF) {
		return in, nil
	}
	switch name {
	case "gzip", "x-gzip":
		return gzip.NewReader(in)
	case "deflate":
		if len(head) == 2 && head[0]&0x0f == 8 && (int(head[0])<<8|int(head[1]))%31 == 0 {
			return zlib.NewReader(in)
		}
		return flate.NewReader(in), nil // what some servers take deflate for
	}
	return nil, fmt.Errorf("%w: it is compressed in a way that was not asked for (%.40q)", ErrRefused, name)
}
