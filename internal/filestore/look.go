package filestore

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"image"
	"image/gif"
	"image/jpeg"
	"image/png"
	"io"
	"mime"
	"net/http"
	"path"
	"strings"
	"syscall"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/internal/redact"
	"github.com/corebot/corebot/internal/runes"
)

// MaxPixels bounds an image that a model is shown. A small file can say that it has billions of pixels.
const MaxPixels = 50_000_000

const (
	sniffed = 512 // bytes that tell a type
	maxName = 120 // bytes of a name
	unknown = "application/octet-stream"
)

// Look sees what a content is, and returns the part with its real type and a name for display. An image whose size
// cannot be read, or is over [MaxPixels], is a file of an unknown type.
func Look(content io.ReadSeeker, p corebot.Part) (corebot.Part, error) {
	head := make([]byte, sniffed)
	n, err := io.ReadFull(content, head)
	if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
		return p, fmt.Errorf("look at a file that came: %w", err)
	}
	if _, err := content.Seek(0, io.SeekStart); err != nil {
		return p, fmt.Errorf("look at a file that came: %w", err)
	}
	p.Name = DisplayName(p.Name)
	kind := mediaType(head[:n], p)
	p.Type, p.MediaType, p.Text = corebot.PartFile, kind, ""
	switch {
	case strings.HasPrefix(kind, "audio/"):
		p.Type = corebot.PartAudio
	case strings.HasPrefix(kind, "image/"):
		if w, h, ok := dimensions(content, kind); ok && w > 0 && h > 0 && w <= MaxPixels/h {
			p.Type = corebot.PartImage
		} else {
			p.MediaType = unknown
		}
	}
	return p, nil
}

// mediaType is the type of bytes. The word of the sender decides only between types that the bytes allow.
func mediaType(head []byte, p corebot.Part) string {
	declared, _, err := mime.ParseMediaType(p.MediaType)
	if err != nil {
		declared = ""
	}
	for _, known := range []struct{ magic, kind string }{
		{"fLaC", "audio/flac"},
		{"#!AMR", "audio/amr"},
		{"\xff\xfb", "audio/mpeg"},
		{"\xff\xf3", "audio/mpeg"},
		{"\xff\xf2", "audio/mpeg"},
	} {
		if bytes.HasPrefix(head, []byte(known.magic)) {
			return known.kind
		}
	}
	if len(head) > 12 && string(head[4:11]) == "ftypM4A" {
		return "audio/mp4"
	}
	kind, _, _ := mime.ParseMediaType(http.DetectContentType(head))
	switch {
	case kind == "application/ogg":
		return "audio/ogg"
	case kind == "video/mp4" && declared == "audio/mp4", kind == "video/webm" && declared == "audio/webm":
		return declared
	case kind == "application/zip":
		if office, ok := officeTypes[strings.ToLower(path.Ext(p.Name))]; ok {
			return office
		}
	case strings.HasPrefix(kind, "image/") && !shownImages[kind]:
		return unknown
	}
	return kind
}

var shownImages = map[string]bool{"image/png": true, "image/jpeg": true, "image/gif": true, "image/webp": true}

// officeTypes are zip archives by the ends of their names.
var officeTypes = map[string]string{
	".docx": "application/vnd.openxmlformats-officedocument.wordprocessingml.document",
	".xlsx": "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet",
	".pptx": "application/vnd.openxmlformats-officedocument.presentationml.presentation",
	".odt":  "application/vnd.oasis.opendocument.text",
	".ods":  "application/vnd.oasis.opendocument.spreadsheet",
	".odp":  "application/vnd.oasis.opendocument.presentation",
}

// dimensions reads the size of an image out of its head. No pixel is decoded.
func dimensions(content io.Reader, kind string) (w, h int, ok bool) {
	const most = 1 << 20 // of a file that is read for its size
	in := io.LimitReader(content, most)
	var c image.Config
	var err error
	switch kind {
	case "image/png":
		c, err = png.DecodeConfig(in)
	case "image/jpeg":
		c, err = jpeg.DecodeConfig(in)
	case "image/gif":
		c, err = gif.DecodeConfig(in)
	case "image/webp":
		return webpSize(in)
	default:
		return 0, 0, false
	}
	return c.Width, c.Height, err == nil
}

// webpSize reads the size of a WebP image: the first chunk behind the RIFF header has it.
func webpSize(in io.Reader) (w, h int, ok bool) {
	head := make([]byte, 30)
	if _, err := io.ReadFull(in, head); err != nil {
		return 0, 0, false
	}
	le24 := func(b []byte) int { return int(b[0]) | int(b[1])<<8 | int(b[2])<<16 }
	switch string(head[12:16]) {
	case "VP8X":
		return le24(head[24:]) + 1, le24(head[27:]) + 1, true
	case "VP8L":
		bits := binary.LittleEndian.Uint32(head[21:])
		return int(bits&0x3fff) + 1, int(bits>>14&0x3fff) + 1, head[20] == 0x2f
	case "VP8 ":
		return int(binary.LittleEndian.Uint16(head[26:]) & 0x3fff), int(binary.LittleEndian.Uint16(head[28:]) & 0x3fff),
			string(head[23:26]) == "\x9d\x01\x2a"
	}
	return 0, 0, false
}

// DisplayName is [DisplayName], for who has a store only.
func (s *Store) DisplayName(name string) string { return DisplayName(name) }

// DisplayName makes a name that a sender chose fit to be shown, and to name a file. The result is one path part of at
// most 120 bytes, without invisible characters, and does not hide the file. Empty stays empty.
func DisplayName(name string) string {
	name = redact.Visible(strings.ToValidUTF8(name, ""))
	name = strings.Map(func(r rune) rune {
		switch {
		case r < ' ' || r == 0x7f:
			return -1
		case strings.ContainsRune(`<>:"|?*`, r):
			return '_'
		}
		return r
	}, name)
	name = name[strings.LastIndexAny(name, `/\`)+1:]
	name = strings.Trim(strings.TrimLeft(name, ". "), ". ")
	if len(name) <= maxName {
		return name
	}
	end := path.Ext(name)
	if len(end) > 16 {
		end = ""
	}
	return runes.Head(name[:len(name)-len(end)], maxName-len(end)) + end
}

// isFull says whether a disk or a quota has no room.
func isFull(err error) bool { return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) }
