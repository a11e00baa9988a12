package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"
)

func (f *fort) asBody(item string, _ int) { f.post(item, nil) }

func (f *fort) asField(item string, i int) {
	m := map[string]any{
		"id": fmt.Sprint("field ", i), "chatId": fmt.Sprint("fields ", i%200), "senderId": "eve",
		"content": "die " + item,
	}
	name := []string{"content", "id", "chatId", "senderId", "metadata", item}[i%6]
	m[name] = item
	if name == "metadata" {
		m[name] = map[string]string{item: item}
	}
	body, err := json.Marshal(m)
	if err != nil {
		f.t.Errorf("%q: %v", item, err)
	}
	f.post(string(body), nil)
}

// post sends a body and tries again as a caller should.
func (f *fort) post(body string, header http.Header) {
	for tries := 0; ; tries++ {
		r, err := http.NewRequest(http.MethodPost, "http://"+f.addr+"/webhook", strings.NewReader(body))
		if err != nil {
			f.t.Error(err)
			return
		}
		r.Header.Set("Authorization", "Bearer "+f.token)
		r.Header.Set("Content-Type", "application/json")
		maps.Copy(r.Header, header)
		status := f.do(r, body)
		if status != http.StatusTooManyRequests && status != http.StatusServiceUnavailable || tries > 400 {
			return
		}
		time.Sleep(50 * time.Millisecond)
	}
}

func (f *fort) do(r *http.Request, item string) int {
	answer, err := f.http.Do(r)
	if err != nil {
		f.t.Errorf("%.100q: %v", item, err)
		return 0
	}
	defer answer.Body.Close() //nolint:errcheck // only read
	text, err := io.ReadAll(io.LimitReader(answer.Body, 8<<20))
	f.judge(answer.StatusCode, string(text), item, err)
	return answer.StatusCode
}

func (f *fort) judge(status int, text, item string, err error) {
	if err != nil || status >= 500 && status != http.StatusServiceUnavailable || strings.Contains(text, theSecret) ||
		strings.Contains(text, f.token) || strings.Contains(text, "goroutine ") {
		f.t.Errorf("%.100q is answered %d %.300q, %v", item, status, text, err)
	}
}

// asHeader writes an item into a request byte for byte, in one of its headers or its first line.
func (f *fort) asHeader(item string, i int) {
	item = item[:min(len(item), 8<<10)]
	head := func(target, host, authorization string, more ...string) string {
		return "POST " + target + " HTTP/1.1\r\nHost: " + host + "\r\nConnection: close\r\nAuthorization: " +
			authorization + "\r\n" + strings.Join(more, "\r\n") + "\r\nContent-Length: 2\r\n\r\n{}"
	}
	bearer := "Bearer " + f.token
	request := []string{
		head("/webhook", f.addr, item),
		head("/webhook", item, bearer),
		head("/webhook", f.addr, bearer, "Content-Type: "+item),
		head("/webhook", f.addr, "x", "webhook-id: "+item, "webhook-timestamp: "+item, "webhook-signature: "+item),
		head("/webhook", f.addr, bearer, "X-Forwarded-For: "+item, "Forwarded: "+item, "Origin: "+item),
		head(item, f.addr, bearer),
		head("/webhook", f.addr, bearer, "Content-Encoding: "+item, "Last-Event-ID: "+item, item+": x"),
	}[i%7]
	f.write(f.addr, request, item, true)
}

// write sends bytes to a listener, and says with which statuses it answers. Where nothing else can come, it says so to
// the listener.
func (f *fort) write(addr, request, item string, whole bool) (statuses []int) {
	c, err := net.DialTimeout("tcp", addr, patience)
	if err != nil {
		f.t.Error(err)
		return nil
	}
	defer c.Close() //nolint:errcheck // only read
	_ = c.SetDeadline(time.Now().Add(2 * patience))
	_, _ = io.WriteString(c, request) // it may be refused before it is whole
	if tcp, ok := c.(*net.TCPConn); ok && whole {
		_ = tcp.CloseWrite()
	}
	answer, err := io.ReadAll(io.LimitReader(c, 1<<20))
	if timeout := net.Error(nil); errors.As(err, &timeout) && timeout.Timeout() {
		f.t.Errorf("%.100q in a header is not answered", item)
	}
	for line := range strings.Lines(string(answer)) {
		var status int
		// net/http's word for a transfer coding
		if n, _ := fmt.Sscanf(line, "HTTP/1.1 %d", &status); n == 1 && status != http.StatusNotImplemented {
			f.judge(status, string(answer), item, nil)
			statuses = append(statuses, status)
		}
	}
	return statuses
}

// asScrape asks the listener of observability, by path, query and headers.
func (f *fort) asScrape(item string, i int) {
	item = item[:min(len(item), 8<<10)]
	get := func(target, host, header string) string {
		return "GET " + target + " HTTP/1.1\r\nHost: " + host + "\r\nConnection: close\r\n" + header + "\r\n\r\n"
	}
	page := []string{"/status", "/metrics", "/ready", "/health"}[i%4]
	f.write(f.metrics, []string{
		get(page+"?"+url.QueryEscape(item), f.metrics, "Accept: "+item),
		get("/"+url.PathEscape(item), f.metrics, "Accept-Encoding: "+item),
		get(item, f.metrics, "Origin: "+item),
		get(page, item, "X-Forwarded-Host: "+item),
		get(page, f.metrics, "Authorization: "+item),
	}[i%5], item, false) // to /status, a caller who says no more has gone
}

func (f *fort) asQuery(item string, i int) {
	escaped := url.QueryEscape(item[:min(len(item), 3<<10)])
	query := []string{
		"chatId=" + escaped, "chatId=a&after=" + escaped, "chatId=a&limit=" + escaped,
		"chatId=a&" + escaped + "=1", escaped, "chatId=" + escaped + "&chatId=b",
	}[i%6]
	for _, path := range []string{"/webhook/outbound?", "/webhook?"} {
		r, err := http.NewRequest(http.MethodGet, "http://"+f.addr+path+query, nil)
		if err != nil {
			f.t.Error(err)
			return
		}
		r.Header.Set("Authorization", "Bearer "+f.token)
		f.do(r, item)
	}
}
