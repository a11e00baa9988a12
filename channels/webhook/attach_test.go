package webhook

import (
	"bytes"
	"io"
	"mime/multipart"
	"net/http"
	"net/textproto"
	"strings"
	"testing"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/channels"
)

// form makes a form of fields, as NAME=VALUE, and of files, as NAME=@CONTENT.
func form(t testing.TB, fields ...string) (body []byte, contentType string) {
	t.Helper()
	var out bytes.Buffer
	w := multipart.NewWriter(&out)
	for _, f := range fields {
		name, value, _ := strings.Cut(f, "=")
		head := textproto.MIMEHeader{"Content-Disposition": {`form-data; name="` + name + `"`}}
		if content, is := strings.CutPrefix(value, "@"); is {
			head.Set("Content-Disposition", `form-data; name="`+name+`"; filename="a.txt"`)
			head.Set("Content-Type", "text/plain")
			value = content
		}
		p, err := w.CreatePart(head)
		if err == nil {
			_, err = io.WriteString(p, value)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes(), w.FormDataContentType()
}

func read(t *testing.T, a channels.Attached) string {
	t.Helper()
	in, err := a.Open()
	if err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(in)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestAFormSaysWhatAJSONBodySays(t *testing.T) {
	raw, kind := form(t, "attachments=@one", "id=i", "chatId=c", "content=t", `metadata={"a":[1]}`, "attachments=@two")
	in, p := decodeBody(http.Header{"Content-Type": {kind}}, raw)
	if p != nil {
		t.Fatalf("%+v", p)
	}
	want, p := decode([]byte(`{"id":"i","chatId":"c","content":"t","metadata":{"a":[1]},"attachments":[` +
		`{"name":"a.txt","type":"text/plain","data":"b25l"},{"name":"a.txt","type":"text/plain","data":"dHdv"}]}`))
	if p != nil {
		t.Fatalf("%+v", p)
	}
	part := corebot.Part{Type: corebot.PartFile, Name: "a.txt", MediaType: "text/plain"}
	for _, got := range []channels.Incoming{in, want} {
		if got.ID != "i" || got.Chat != "c" || got.Text() != "t" || got.Metadata.String() != `{"a":[1]}` ||
			len(got.Parts) != 3 || got.Parts[1] != part ||
			read(t, got.Files[0]) != "one" || read(t, got.Files[1]) != "two" || read(t, got.Files[0]) != "one" ||
			got.Files[1].Part != 1 {
			t.Errorf("%+v", got)
		}
	}
}

func TestAFormThatIsWrongIsRefused(t *testing.T) {
	whole, kind := form(t, "id=i", "chatId=c", "content=t", "attachments=@"+strings.Repeat("x", 99))
	for name, c := range map[string]struct {
		fields []string
		status int
		says   string
	}{
		"nothing":       {nil, 422, "id is missing"},
		"another field": {[]string{"id=i", "chatId=c", "content=t", "agent=x"}, 422, "there is no field"},
		"a field twice": {[]string{"id=i", "id=j", "chatId=c", "content=t"}, 422, "stands there twice"},
		"no metadata":   {[]string{"id=i", "chatId=c", "content=t", "metadata={"}, 422, "metadata must be"},
		"too many files": {
			append(strings.Fields(strings.Repeat("attachments=@x ", 21)), "id=i", "chatId=c"), 422, "at most 20",
		},
		"a long field": {
			[]string{"id=i", "chatId=c", "content=" + strings.Repeat("x", maxFormField+1)}, 422, "longer",
		},
	} {
		raw, kind := form(t, c.fields...)
		if _, p := decodeBody(http.Header{"Content-Type": {kind}}, raw); p == nil || p.status != c.status ||
			!strings.Contains(p.detail, c.says) {
			t.Errorf("%s: %+v", name, p)
		}
	}
	for n := range len(whole) - 2 { // cut off anywhere
		if _, p := decodeBody(http.Header{"Content-Type": {kind}}, whole[:n]); p == nil {
			t.Fatalf("a form of %d of %d bytes is read", n, len(whole))
		}
	}
}

func FuzzForm(f *testing.F) {
	raw, kind := form(f, "id=i", "chatId=c", "content=t", "attachments=@x")
	f.Add(raw, kind)
	f.Add([]byte("--x\r\n\r\n\r\n--x--"), "multipart/form-data; boundary=x")
	f.Fuzz(func(t *testing.T, raw []byte, kind string) {
		boundary, is := isForm(http.Header{"Content-Type": {kind}})
		if !is {
			return
		}
		in, p := decodeForm(raw, boundary)
		if p != nil {
			if p.status != http.StatusBadRequest && p.status != http.StatusUnprocessableEntity || p.detail == "" {
				t.Fatalf("refused with %+v", p)
			}
			return
		}
		for _, a := range in.Files {
			content, err := a.Open()
			if err != nil {
				t.Fatal(err)
			}
			if _, err := io.Copy(io.Discard, content); err != nil {
				t.Fatal(err)
			}
		}
	})
}
