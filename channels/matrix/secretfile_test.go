//go:build matrixcrypto

package matrix

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rs/zerolog"
	"maunium.net/go/mautrix/crypto/attachment"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/channels"
	"github.com/corebot/corebot/channels/matrix/matrixtest"
	"github.com/corebot/corebot/channels/matrix/sealed"
)

// holds has the homeserver of the account serve these bytes as the file mxc://test/abc.
func (h *secretHome) holds(content []byte) {
	h.t.Helper()
	rest, err := url.Parse(strings.TrimSuffix(h.c.client.base, apiPath))
	h.must(err)
	front := http.NewServeMux()
	front.Handle("/", httputil.NewSingleHostReverseProxy(rest))
	front.HandleFunc("/_matrix/client/v1/media/download/test/abc", func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write(content)
	})
	s := httptest.NewServer(front)
	h.t.Cleanup(s.Close)
	h.c.client.base = s.URL + apiPath
}

// sendsFile is a file that Ann sends: what her event says of it, changed.
func (h *secretHome) sendsFile(id string, more map[string]any) channels.Incoming {
	h.t.Helper()
	content := map[string]any{
		"msgtype": "m.file", "body": "plan.txt", "info": map[string]any{"mimetype": "text/plain", "size": 4},
	}
	maps.Copy(content, more)
	e := h.says(id, typeMessage, content)
	h.arrive()
	all := h.reads(e)
	if len(all) != 1 || len(all[0].Files) != 1 || len(corebot.Attachments(all[0].Parts)) != 1 {
		h.t.Fatalf("%s: it reads %+v", id, all)
	}
	return all[0].Incoming
}

// byOthers encrypts as another program does, with the library alone.
func byOthers(text string) (content []byte, said map[string]any) {
	f := attachment.NewEncryptedFile()
	content = []byte(text)
	f.EncryptInPlace(content)
	whole, _ := json.Marshal(f)
	_ = json.Unmarshal(whole, &said)
	said["url"] = "mxc://test/abc"
	return content, said
}

func TestAFileOfAnEncryptedRoomIsReadAndItsHashIsChecked(t *testing.T) {
	h := newSecretHome(t)
	content, said := byOthers("the plan")
	for name, tried := range map[string]struct {
		bytes []byte
		want  error
	}{
		"whole": {content, nil}, "cut": {content[:5], channels.ErrForged}, "empty": {nil, channels.ErrForged},
		"longer":  {append(bytes.Clone(content), 'x'), channels.ErrForged},
		"changed": {append([]byte{content[0] ^ 1}, content[1:]...), channels.ErrForged},
	} {
		h.holds(tried.bytes)
		in := h.sendsFile("$"+name, map[string]any{"file": said})
		for range 2 { // the door tries twice
			from, err := in.Files[0].Fetch(t.Context())
			h.must(err)
			got, err := io.ReadAll(from)
			if !errors.Is(err, tried.want) || tried.want == nil && string(got) != "the plan" {
				t.Errorf("%s: it reads %q, %v", name, got, err)
			}
			n, err := from.Read(make([]byte, 9))
			if n > 0 || err == nil || tried.want != nil && !errors.Is(err, tried.want) {
				t.Errorf("%s: behind its end it reads %d bytes, %v", name, n, err)
			}
			h.must(from.Close())
		}
	}
}

// Everybody in the room can say what he likes of a file.
func TestAFileWithAStrangeKeyIsNamedAndNotAskedFor(t *testing.T) {
	h := newSecretHome(t)
	changed := func(change func(said, key map[string]any)) map[string]any {
		_, said := byOthers("the plan")
		change(said, said["key"].(map[string]any))
		return map[string]any{"file": said}
	}
	for name, more := range map[string]map[string]any{
		"version":     changed(func(f, _ map[string]any) { f["v"] = "v9" }),
		"algorithm":   changed(func(_, k map[string]any) { k["alg"] = "none" }),
		"short key":   changed(func(_, k map[string]any) { k["k"] = "AAAA" }),
		"broken key":  changed(func(_, k map[string]any) { k["k"] = strings.Repeat("?", 43) }),
		"no iv":       changed(func(f, _ map[string]any) { delete(f, "iv") }),
		"no hash":     changed(func(f, _ map[string]any) { delete(f, "hashes") }),
		"short hash":  changed(func(f, _ map[string]any) { f["hashes"] = map[string]any{"sha256": "AAAA"} }),
		"hash":        changed(func(f, _ map[string]any) { f["hashes"] = "AAAA" }),
		"address":     changed(func(f, _ map[string]any) { f["url"] = "http://169.254.169.254/" }),
		"steps":       changed(func(f, _ map[string]any) { f["url"] = "mxc://../.." }),
		"no address":  changed(func(f, _ map[string]any) { delete(f, "url") }),
		"number":      {"file": 7},
		"list":        {"file": []any{}},
		"null":        {"file": nil},
		"in the open": {"url": "mxc://test/abc"},
	} {
		if in := h.sendsFile("$"+name, more); in.Files[0].Fetch != nil || in.Files[0].Missing == "" {
			t.Errorf("%s: %+v", name, in.Files[0])
		}
	}
}

// A file is refused, or its bytes are decrypted and their hash is looked at, whatever its event says.
func FuzzSecretFile(f *testing.F) {
	content, said := byOthers("the plan")
	whole, _ := json.Marshal(said)
	f.Add(whole, content)
	f.Add([]byte(strings.Replace(string(whole), "v2", "v1", 1)), content)
	f.Add([]byte(`{"url":"mxc://a/b","v":"v2","key":{"alg":"A256CTR","k":"A"},"iv":"","hashes":7}`), []byte{})
	f.Add([]byte(`null`), []byte("x"))
	c := &Channel{site: channels.Site{Log: zerolog.Nop()}}
	f.Fuzz(func(t *testing.T, said, bytes []byte) {
		a := c.secretFile(said)
		if (a.Missing == "") != (a.Fetch != nil) {
			t.Fatalf("%+v", a)
		}
		key, err := sealed.FileKeyOf(said)
		if err != nil {
			return
		}
		got, err := io.ReadAll(key.Open(io.NopCloser(strings.NewReader(string(bytes))), channels.ErrForged))
		var is struct {
			Hashes struct {
				SHA256 string `json:"sha256"`
			} `json:"hashes"`
		}
		_ = json.Unmarshal(said, &is)
		sum := sha256.Sum256(bytes)
		want, _ := base64.RawStdEncoding.DecodeString(is.Hashes.SHA256)
		if (err == nil) != (string(want) == string(sum[:])) || err != nil && !errors.Is(err, channels.ErrForged) {
			t.Fatalf("%q decrypts to %q, %v", bytes, got, err)
		}
	})
}

func TestAFileIsEncryptedForAnEncryptedRoomAndOthersReadIt(t *testing.T) {
	h := newSecretHome(t)
	h.must(os.WriteFile(filepath.Join(h.dir, "file"), []byte("a secret plan"), 0o600))
	h.must(h.c.keeper.Learn(t.Context(), secretRoom, rule))
	o := channels.Outbound{
		ID: "r", IdempotencyKey: "r", Kind: corebot.KindReply,
		Key:   corebot.Key{Agent: "a", Channel: "matrix", Account: "main", Chat: secretRoom},
		Parts: []corebot.Part{{Type: corebot.PartFile, Name: "plan.txt", MediaType: "text/plain", Hash: "h"}},
	}
	h.Faults(func(c matrixtest.Call) matrixtest.Fault { return matrixtest.Fault{DropAfter: c.Name == "upload"} })
	if _, err := h.c.Send(t.Context(), o); err == nil || errors.Is(err, channels.ErrMayBeShown) {
		t.Errorf("an upload without an answer: %v", err)
	}
	h.Faults(nil)
	_, err := h.c.Send(t.Context(), o)
	h.must(err)
	first, second := h.Bytes("mxc://localhost/file0"), h.Bytes("mxc://localhost/file1")
	if h.Uploaded() != 2 || bytes.Equal(first, second) {
		t.Errorf("of %d uploads the retry has the key of the first try: %q", h.Uploaded(), first)
	}
	call := h.Calls("send")[0]
	text, _ := json.Marshal(call.Body)
	if call.Body["ciphertext"] == nil || strings.Contains(string(text), "plan") {
		t.Fatalf("the homeserver gets %s", text)
	}
	var k sealed.Keys
	k.ToDevice.Events = h.post.Keys(matrixtest.Ann, "A")
	h.must(h.ann.Take(t.Context(), k))
	opened, err := h.ann.Open(t.Context(), sealed.Event{
		Room: secretRoom, ID: "$f", Sender: matrixtest.Bot, Content: text,
	})
	h.must(err)
	var shown struct {
		Name string `json:"filename"`
		URL  string `json:"url"`
		Info struct {
			Type string `json:"mimetype"`
			Size int    `json:"size"`
		} `json:"info"`
		File struct {
			attachment.EncryptedFile
			URL string `json:"url"`
		} `json:"file"`
	}
	h.must(json.Unmarshal(opened.Content, &shown))
	got := h.Bytes(shown.File.URL)
	if strings.Contains(string(got), "plan") || len(got) != shown.Info.Size {
		t.Errorf("the homeserver has %q", got)
	}
	h.must(shown.File.DecryptInPlace(got))
	if string(got) != "a secret plan" ||
		shown.Name != "plan.txt" || shown.URL != "" || shown.Info.Type != "text/plain" {
		t.Errorf("Ann gets %q by %s", got, opened.Content)
	}
}
