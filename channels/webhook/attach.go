package webhook

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"mime/multipart"
	"net/http"
	"unicode/utf8"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/channels"
	"github.com/corebot/corebot/internal/signedpost"
)

const (
	maxFileName  = 512     // bytes of a name or a type that a caller gives
	maxFormField = 1 << 20 // bytes of a field of a form that is no file
	fieldFiles   = "attachments"
)

// attachment is a file of a JSON body.
type attachment struct {
	name, kind string
	data       []byte // of the body itself: a large file is in memory once
}

// attachments reads the files of a JSON body.
func (x *reader) attachments() error {
	if x.json.Kind() != '[' {
		x.blame("%s must be an array", fieldFiles)
		return x.skip()
	}
	if _, err := x.json.Next(); err != nil {
		return err
	}
	for x.json.More() {
		var a attachment
		given := map[string]bool{}
		err := x.object("an attachment", func(name string) error {
			given[name] = true
			switch name {
			case "name":
				return x.text("the name of an attachment", &a.name)
			case "type":
				return x.text("the type of an attachment", &a.kind)
			case "data":
				return x.data(&a.data)
			}
			x.blame("an attachment has no field %s; fields are name, type and data", quoted(name))
			return x.skip()
		})
		if err != nil {
			return err
		}
		if x.wrong == "" && !given["data"] {
			x.blame("an attachment has no data: it is base64")
		}
		x.attach(a)
	}
	_, err := x.json.Next()
	return err
}

// data reads the content of a file.
func (x *reader) data(into *[]byte) (err error) {
	if x.json.Kind() != '"' {
		x.blame("the data of an attachment must be a string")
		return x.skip()
	}
	*into, err = x.json.Text()
	return err
}

// attach checks one file. Its bytes are decoded while they are stored, so that they are in memory once only.
func (x *reader) attach(a attachment) {
	content := func() io.Reader {
		return base64.NewDecoder(base64.StdEncoding.Strict(), bytes.NewReader(a.data))
	}
	switch {
	case len(x.files) == channels.MaxFiles:
		x.blame("a message has at most %d %s", channels.MaxFiles, fieldFiles)
	case len(a.name) > maxFileName || len(a.kind) > maxFileName:
		x.blame("the name or the type of an attachment is longer than %d bytes", maxFileName)
	case x.wrong == "":
		if _, err := io.Copy(io.Discard, content()); err != nil {
			x.blame("the data of the attachment %s is not base64", quoted(a.name))
		}
	}
	x.files = append(x.files, file{a.name, a.kind, func() (io.ReadCloser, error) {
		return io.NopCloser(content()), nil
	}})
}

// file is an attachment of a body.
type file struct {
	name, kind string
	open       func() (io.ReadCloser, error)
}

// withFiles adds files to a message.
func withFiles(in channels.Incoming, files []file) channels.Incoming {
	for i, f := range files {
		in.Files = append(in.Files, channels.Attached{Part: i, Open: f.open})
		in.Parts = append(in.Parts, corebot.Part{Type: corebot.PartFile, Name: f.name, MediaType: f.kind})
	}
	return in
}

// isForm says whether a body is multipart/form-data, and its boundary.
func isForm(h http.Header) (boundary string, yes bool) {
	value, _ := signedpost.Only(h, "Content-Type")
	kind, params, err := mime.ParseMediaType(value)
	return params["boundary"], err == nil && kind == "multipart/form-data" && params["boundary"] != ""
}

// decodeForm reads a form whose fields are those of the JSON body, metadata as JSON. Each field with the name
// attachments is a file. The bytes of files are read again while they are stored.
func decodeForm(raw []byte, boundary string) (channels.Incoming, *problem) {
	fields, files := map[string]json.RawMessage{}, []file{}
	err := eachPart(raw, boundary, func(n int, p *multipart.Part) error {
		if p.FormName() == fieldFiles {
			files = append(files, file{p.FileName(), p.Header.Get("Content-Type"), func() (io.ReadCloser, error) {
				return partAt(raw, boundary, n)
			}})
			return nil
		}
		text, err := io.ReadAll(io.LimitReader(p, maxFormField+1))
		switch {
		case err != nil:
			return err
		case len(text) > maxFormField:
			return &wrongForm{fmt.Sprintf("the field %s is longer than %d bytes", quoted(p.FormName()), maxFormField)}
		case !utf8.Valid(text):
			return &wrongForm{fmt.Sprintf("the field %s is not valid UTF-8", quoted(p.FormName()))}
		case fields[p.FormName()] != nil:
			return &wrongForm{fmt.Sprintf("the field %s stands there twice", quoted(p.FormName()))}
		case p.FormName() == "metadata":
			if !json.Valid(text) {
				return &wrongForm{"metadata must be an object, as JSON"}
			}
			fields["metadata"] = text
		default:
			fields[p.FormName()] = encode(string(text))
		}
		return nil
	})
	if wrong := (*wrongForm)(nil); errors.As(err, &wrong) {
		return channels.Incoming{}, refuse(http.StatusUnprocessableEntity, "%s", wrong.what)
	}
	if err != nil {
		return channels.Incoming{}, refuse(http.StatusBadRequest, "the body is malformed: it is not one whole form")
	}
	if len(files) > channels.MaxFiles {
		return channels.Incoming{}, refuse(http.StatusUnprocessableEntity,
			"a message has at most %d %s", channels.MaxFiles, fieldFiles)
	}
	return decodeWith(encode(fields), files)
}

// wrongForm is a form that is well made and says what it may not.
type wrongForm struct{ what string }

func (w *wrongForm) Error() string { return w.what }

// eachPart reads the parts of a form, to its end.
func eachPart(raw []byte, boundary string, each func(n int, p *multipart.Part) error) error {
	// The reader takes a form that is cut behind a delimiter for whole.
	if !bytes.HasSuffix(bytes.TrimRight(raw, "\r\n"), []byte("--"+boundary+"--")) {
		return io.ErrUnexpectedEOF
	}
	parts := multipart.NewReader(bytes.NewReader(raw), boundary)
	for n := 0; ; n++ {
		p, err := parts.NextRawPart()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if len(p.FileName()) > maxFileName || len(p.Header.Get("Content-Type")) > maxFileName {
			return &wrongForm{fmt.Sprintf("the name or the type of a file is longer than %d bytes", maxFileName)}
		}
		if err := each(n, p); err != nil {
			return err
		}
		if _, err := io.Copy(io.Discard, p); err != nil {
			return err
		}
	}
}

// partAt opens one part of a form.
func partAt(raw []byte, boundary string, n int) (io.ReadCloser, error) {
	parts := multipart.NewReader(bytes.NewReader(raw), boundary)
	for i := 0; ; i++ {
		p, err := parts.NextRawPart()
		if err != nil || i == n {
			return p, err
		}
	}
}
