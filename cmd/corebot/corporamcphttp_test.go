package main

import (
	"fmt"
	"io"
	"mime"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
)

// webDesk is the desk of clients over HTTP.
type webDesk struct {
	*desk
	session string
}

// fromWebClients sends every item to the endpoint for MCP clients, whose role is normal. An item is a body with and
// without the token, stands in every place of a message, and in the headers and first line of a request. Only a request
// with the token is served, and it is shown only what the role may see.
func (f *fort) fromWebClients() {
	w := &webDesk{desk: &desk{fort: f}}
	w.ask = w.overHTTP
	if w.session = w.begin(); w.session == "" {
		f.t.Fatal("no session begins")
	}
	w.open()
	before := w.audited()
	w.called = 0
	f.each(w.send)()
	w.requireAudit(before)
	w.requireGood("good over HTTP")
	w.readAll()
}

// send is what one item is made into.
func (w *webDesk) send(item string, i int) {
	w.overHTTP(message{item: item, text: item})
	stranger := []string{"", "Bearer " + strings.Repeat("x", len(w.token))}[i%2]
	for _, text := range []string{item, w.request(`"method":"ping"`).text} {
		if status, _, _ := w.post(text, stranger); status != http.StatusUnauthorized {
			w.t.Errorf("%.100q without the token is answered %d", text, status)
		}
	}
	for _, m := range w.messages(item, i) {
		w.overHTTP(m)
	}
	w.inARequest(item, i)
	if i%100 == 0 { // a good message that is too long
		if status, _, _ := w.post(w.request(`"method":"ping"`).text+strings.Repeat(" ", 1<<20),
			"Bearer "+w.token); status != http.StatusRequestEntityTooLarge {
			w.t.Errorf("a body over the cap is answered %d", status)
		}
	}
}

// statuses are those that a client may get.
var statuses = []int{
	http.StatusOK, http.StatusAccepted, http.StatusBadRequest, http.StatusUnauthorized, http.StatusNotFound,
	http.StatusRequestEntityTooLarge, http.StatusServiceUnavailable,
}

// overHTTP posts a message with the token.
func (w *webDesk) overHTTP(m message) string {
	status, header, text := w.post(m.text, "Bearer "+w.token)
	w.judge(status, text, m.item, nil)
	kind, _, _ := mime.ParseMediaType(header.Get("Content-Type"))
	switch {
	case !slices.Contains(statuses, status) || m.tool != "" && status != http.StatusOK:
		w.t.Errorf("%.300q is answered %d %.300q", m.text, status, text)
	case status == http.StatusServiceUnavailable && header.Get("Retry-After") == "":
		w.t.Errorf("%.300q is to come back, and does not hear when", m.text)
	case status == http.StatusAccepted && (text != "" || m.id != ""):
		w.t.Errorf("%.300q is accepted: %.300q", m.text, text)
	case status == http.StatusOK && kind != "application/json":
		w.t.Errorf("%.300q is answered with %s", m.text, kind)
	case status == http.StatusOK:
		w.hear(text, m)
	}
	return text
}

// begin begins a session.
func (w *webDesk) begin() string {
	_, header, _ := w.post(w.hello().text, "Bearer "+w.token)
	return header.Get("Mcp-Session-Id")
}

func (w *webDesk) post(body, authorization string) (status int, header http.Header, text string) {
	r, err := http.NewRequest(http.MethodPost, "http://"+w.addr+"/mcp", strings.NewReader(body))
	if err != nil {
		w.t.Error(err)
		return 0, nil, ""
	}
	r.Header = http.Header{
		"Content-Type": {"application/json"}, "Accept": {"application/json, text/event-stream"},
		"Mcp-Session-Id": {w.session},
	}
	if authorization != "" {
		r.Header.Set("Authorization", authorization)
	}
	answer, err := w.http.Do(r)
	if err != nil {
		w.t.Errorf("%.100q: %v", body, err)
		return 0, nil, ""
	}
	defer answer.Body.Close() //nolint:errcheck // only read
	all, err := io.ReadAll(io.LimitReader(answer.Body, 8<<20))
	if err != nil {
		w.t.Errorf("%.100q: %v", body, err)
	}
	return answer.StatusCode, answer.Header, string(all)
}

// inARequest writes an item into the first line or a header of a good request, byte for byte. Some of these must not be
// served whatever the item is.
func (w *webDesk) inARequest(item string, i int) {
	item = item[:min(len(item), 8<<10)]
	bearer, session, never := "Authorization: Bearer "+w.token, "Mcp-Session-Id: "+w.session, false
	line, host, headers := "POST /mcp", w.addr, []string{bearer, session}
	switch i % 11 {
	case 0:
		headers, never = []string{"Authorization: " + item, session}, true
	case 1:
		headers, never = []string{"Authorization: Bearer " + item, session}, true
	case 2:
		headers, never = []string{
			"webhook-id: " + item, "webhook-timestamp: " + item, "webhook-signature: " + item,
			session,
		}, true
	case 3:
		headers, never = []string{bearer, "Mcp-Session-Id: " + item}, true
	case 4:
		headers, never = append(headers, "Origin: "+item), true
	case 5:
		host, never = item, !isAddress(item)
	case 6:
		headers = append(headers, "Mcp-Protocol-Version: "+item, "Mcp-Method: "+item, "Mcp-Name: "+item)
	case 7:
		headers = append(headers, "Accept: "+item, "Content-Encoding: "+item, "Last-Event-ID: "+item, item+": x")
	case 8:
		line = []string{"GET", "DELETE", "PUT", "OPTIONS", item}[i/11%5] + " /mcp?" + strings.Map(plain, item)
		headers = []string{bearer, "Mcp-Session-Id: " + item} // a DELETE would end ours
	case 9:
		line = "POST /mcp/" + strings.Map(plain, item)
	case 10:
		headers = append(headers, "Transfer-Encoding: "+item)
	}
	body := w.request(`"method":"ping"`).text
	request := line + " HTTP/1.1\r\nHost: " + host + "\r\nConnection: close\r\n" + strings.Join(headers, "\r\n") +
		"\r\n"
	if i%11 != 10 {
		request += "Content-Length: " + fmt.Sprint(len(body)) + "\r\n"
	}
	for _, status := range w.write(w.addr, request+"Content-Type: application/json\r\n\r\n"+body, item, true) {
		if never && status < 300 {
			w.t.Errorf("a request is served, %d, in place %d of which is %.200q", status, i%11, item)
		}
	}
}

// plain leaves of a text what can stand in a path.
func plain(r rune) rune {
	if r <= ' ' || r > '~' || strings.ContainsRune("?#%", r) {
		return -1
	}
	return r
}

// isAddress says whether a program may write the item into Host: nothing, an address or localhost. The text behind a
// line end is another header.
func isAddress(item string) bool {
	host, _, _ := strings.Cut(item, "\n")
	host = strings.TrimSpace(host)
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	host = strings.TrimSuffix(strings.Trim(host, "[]"), ".")
	_, err := netip.ParseAddr(host)
	return err == nil || host == "" || strings.EqualFold(host, "localhost")
}
