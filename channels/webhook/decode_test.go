package webhook

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"reflect"
	"strings"
	"testing"
	"time"
)

func TestBodiesAreReadStrictly(t *testing.T) {
	with := func(more string) string { return `{"id":"i","chatId":"c","content":"t"` + more + `}` }
	for body, want := range map[string]struct {
		status int
		detail string
	}{
		// malformed
		``:                                    {400, "JSON"},
		` `:                                   {400, "JSON"},
		`{`:                                   {400, "JSON"},
		`nul`:                                 {400, "JSON"},
		`{"id":"i",}`:                         {400, "JSON"},
		`{'id':'i'}`:                          {400, "JSON"},
		`{"id":"i" "chatId":"c"}`:             {400, "JSON"},
		`{"id":01}`:                           {400, "JSON"},
		`{"id":NaN}`:                          {400, "JSON"},
		"{\"id\":\"a\nb\"}":                   {400, "JSON"},
		`{"id":"\x"}`:                         {400, "JSON"},
		with(``) + `{}`:                       {400, "JSON"},
		with(``) + `]`:                        {400, "JSON"},
		with(``) + "\x00":                     {400, "JSON"},
		"\ufeff" + with(``):                   {400, "JSON"},
		"{\"id\":\"\xff\"}":                   {400, "UTF-8"},
		"{\"id\":\"\xed\xa0\x80\"}":           {400, "UTF-8"},
		with(`,"id":"i"`):                     {400, "twice"},
		with(`,"\u0069d":"i"`):                {400, "twice"},
		with(`,"other":{"a":1,"a":2}`):        {400, "twice"},
		with(`,"metadata":{"a":"1","a":"1"}`): {400, "twice"},
		with(`,"senderId":"\ud800"`):          {400, "half a character"},
		with(`,"senderId":"\udc00\ud800"`):    {400, "half a character"},
		with(`,"senderId":"\ud800\\udc00"`):   {400, "half a character"},
		with(`,"x":` + strings.Repeat("[", 40) + strings.Repeat("]", 40)):         {400, "deeper"},
		with(`,"x":` + strings.Repeat("[", 20_000) + strings.Repeat("]", 20_000)): {400, "deeper"},
		// a document, but not the right one
		`null`:                                      {422, "object"},
		`[]`:                                        {422, "object"},
		`"id"`:                                      {422, "object"},
		`1e999`:                                     {422, "object"},
		`{}`:                                        {422, "id is missing"},
		`{"id":"i","chatId":"c"}`:                   {422, "content is missing"},
		`{"id":"i","content":"t"}`:                  {422, "chatId is missing"},
		`{"id":"","chatId":"c","content":"t"}`:      {422, "id is missing or empty"},
		`{"id":1,"chatId":"c","content":"t"}`:       {422, "id must be a string"},
		`{"id":"i","chatId":{},"content":"t"}`:      {422, "chatId must be a string"},
		`{"id":"i","chatId":"c","content":[1]}`:     {422, "content must be a string"},
		`{"ID":"i","chatId":"c","content":"t"}`:     {422, `"ID"`},
		with(`,"senderId":null`):                    {422, "senderId must be a string"},
		with(`,"deliverAt":7`):                      {422, "deliverAt must be a string"},
		with(`,"deliverAt":""`):                     {422, "deliverAt must be a time with a zone, such as 2026-"},
		with(`,"deliverAt":"2026-12-24T18:00"`):     {422, "deliverAt must be a time with a zone"},
		with(`,"deliverAt":"2026-02-30T18:00:00Z"`): {422, "deliverAt must be a time with a zone"},
		with(`,"senderId":7`):                       {422, "senderId must be a string"},
		with(`,"other":1`):                          {422, `"other"`},
		with(`,"":1`):                               {422, `""`},

		with(`,"` + strings.Repeat("n", 999) + `":1`): {422, strings.Repeat("n", 64) + `"…`},

		with(`,"attachments":{}`):                      {422, "attachments must be an array"},
		with(`,"attachments":[7]`):                     {422, "an attachment must be an object"},
		with(`,"attachments":[{"name":"a"}]`):          {422, "an attachment has no data"},
		with(`,"attachments":[{"data":"a"}]`):          {422, "is not base64"},
		with(`,"attachments":[{"data":"","url":"x"}]`): {422, `an attachment has no field "url"`},
		with(`,"attachments":[{"data":"","data":""}]`): {400, "stands there twice"},
		with(`,"attachments":[{"data":"aGk="}`):        {400, "it is not one JSON document"},

		with(`,"attachments":[` + strings.Repeat(`{"data":""},`, 20) + `{"data":""}]`): {
			422,
			"has at most 20 attachments",
		},

		with(`,"attachments":[{"data":"","name":"` + strings.Repeat("n", 999) + `"}]`): {422, "longer than 512 bytes"},

		with(`,"metadata":null`):                {422, "metadata must be an object"},
		with(`,"metadata":[]`):                  {422, "metadata must be an object"},
		with(`,"metadata":{"a":{"b":1,"b":1}}`): {400, "stands there twice"},
		with(`,"metadata":{"a":` + strings.Repeat("[", maxDepth+1) + strings.Repeat("]", maxDepth+1) + `}`): {
			400,
			"nested deeper than 32",
		},
		with(`,"metadata":{"a":[` + strings.Repeat("1,", maxMetadataBytes/2) + `1]}`): {
			422,
			"metadata is more than",
		},

		with(`,"senderName":null`):  {422, "senderName must be a string"},
		with(`,"senderName":["A"]`): {422, "senderName must be a string"},
		with(`,"senderName":"` + strings.Repeat("é", maxSenderName/2+1) + `"`): {
			422,
			"senderName is longer than 256 bytes",
		},

		with(`,"metadata":{"a":"` + strings.Repeat("v", maxMetadataBytes) + `"}`): {422, "metadata is more than"},
		with(`,"metadata":` + entries(maxMetadata+1)):                             {422, "metadata is more than"},
	} {
		in, p := decode([]byte(body))
		if p == nil {
			t.Errorf("%.80q was read as %+v", body, in)
		} else if p.status != want.status || !strings.Contains(p.detail, want.detail) {
			t.Errorf("%.80q: %d %q, want %d %q", body, p.status, p.detail, want.status, want.detail)
		}
	}
}

func entries(n int) string {
	m := map[string]string{}
	for i := range n {
		m[fmt.Sprint(i)] = "v"
	}
	return string(encode(m))
}

func TestGoodBodiesAreReadAsTheyAre(t *testing.T) {
	for body, text := range map[string]string{
		`{"id":"i","chatId":"c","content":"t"}`:                                         "t",
		" \r\n\t{\"content\" : \"t\",\n\"chatId\":\"c\",\"id\":\"i\"} \n":               "t",
		`{"id":"i","chatId":"c","content":"\ud83d\ude00 \\ud800 \u00e4\n\u0000"}`:       "😀 \\ud800 ä\n\x00",
		`{"id":"i","chatId":"c","content":"t","metadata":` + entries(maxMetadata) + `}`: "t",
	} {
		in, p := decode([]byte(body))
		if p != nil || in.ID != "i" || in.Chat != "c" || in.Text() != text {
			t.Errorf("%.80q: %+v, %+v", body, in, p)
		}
	}
}

func TestATimeOfDeliveryIsThatMoment(t *testing.T) {
	in, p := decode([]byte(`{"id":"i","chatId":"c","content":"t","deliverAt":"2026-12-24T18:00:00.25+01:00"}`))
	want := time.Date(2026, 12, 24, 17, 0, 0, 250_000_000, time.UTC)
	if p != nil || !in.Envelope.DeliverAt.Equal(want) {
		t.Fatalf("got %v, %+v", in.Envelope.DeliverAt, p)
	}
}

func TestMetadataMayBeAnyJSONAndTheSenderHasAName(t *testing.T) {
	in,
		p := decode([]byte(
		`{"id":"i","chatId":"c","content":"t","senderName":"Ada \u0026 Zoë","metadata":{"text":"<a>","number":1.50,` +
			`"deep":{"z":[1,null,true],"a":{}},"none":null}}`))
	if p != nil || in.SenderName != "Ada & Zoë" {
		t.Fatalf("got %+v, %+v", in, p)
	}
	want := `{"deep":{"a":{},"z":[1,null,true]},"none":null,"number":1.50,"text":"<a>"}`
	if got := string(encode(in.Metadata)); got != want {
		t.Errorf("the metadata is %s, want %s", got, want)
	}
}

// FuzzBody holds decode to encoding/json: what it lets in is what the standard decoder reads, and comes back when it is
// written again.
func FuzzBody(f *testing.F) {
	for _, s := range []string{
		goodBody, `{"id":"i","chatId":"c","content":"\ud83d\ude00","metadata":{"a":"b"}}`, `{"id":"i","id":"j"}`,
		`[{"a":[1,2,{"b":null}]}]`,
		`{"id":"\ud800"}`, "{\"id\":\"\xff\"}", `{"metadata":{}}`, `{"ID":"x"}`, `"\`, `{"a":"\u00`,
		`{"id":"i","chatId":"c","content":"t","deliverAt":"2026-12-24T18:00:00Z"}`,
		`{"id":"i","chatId":"c","attachments":[{"name":"a","type":"b","data":"aGk="}]}`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		in, p := decode(raw)
		if p != nil {
			if p.status != http.StatusBadRequest && p.status != http.StatusUnprocessableEntity || p.detail == "" {
				t.Fatalf("refused with %+v", p)
			}
			if p.status == http.StatusUnprocessableEntity && !json.Valid(raw) {
				t.Fatal("a malformed body is called wrong")
			}
			return
		}
		type fields struct {
			ID       string         `json:"id"`
			Chat     string         `json:"chatId"`
			Sender   string         `json:"senderId"`
			Text     string         `json:"content"`
			Name     string         `json:"senderName"`
			Metadata map[string]any `json:"metadata"`
			At       time.Time      `json:"deliverAt"`
		}
		var want fields
		d := json.NewDecoder(bytes.NewReader(raw))
		d.UseNumber()
		if err := d.Decode(&want); err != nil {
			t.Fatalf("let in what encoding/json refuses: %v", err)
		}
		got := fields{in.ID, in.Chat, in.SenderID, in.Text(), in.SenderName, nil, in.Envelope.DeliverAt}
		if in.Metadata != nil {
			d := json.NewDecoder(bytes.NewReader(encode(in.Metadata)))
			d.UseNumber()
			if err := d.Decode(&got.Metadata); err != nil {
				t.Fatalf("the metadata %s is not JSON: %v", encode(in.Metadata), err)
			}
		}
		if !reflect.DeepEqual(got, want) || in.ID == "" || in.Chat == "" || in.Text() == "" && len(in.Files) == 0 {
			t.Fatalf("read %+v, want %+v", got, want)
		}
		if in.Text() == "" {
			return
		}
		again, p := decode(encode(map[string]any{
			"id": in.ID, "chatId": in.Chat, "senderId": in.SenderID,
			"content": in.Text(),
		}))
		if p != nil || again.ID != in.ID || again.Text() != in.Text() || again.SenderID != in.SenderID {
			t.Fatalf("written again it is %+v, %+v", again, p)
		}
	})
}
