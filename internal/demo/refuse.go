package demo

import (
	"fmt"
	"net"
	"net/http"
	"time"
)

// refusing is a model endpoint that takes no key.
type refusing struct {
	http.Server
	URL string
}

// refusingModel listens on loopback until it is closed.
func refusingModel() (*refusing, error) {
	l, err := net.Listen("tcp", anyPort)
	if err != nil {
		return nil, fmt.Errorf("play a model that refuses the key: %w", err)
	}
	r := &refusing{URL: "http://" + l.Addr().String() + "/v1"}
	r.ReadHeaderTimeout = time.Second
	r.Handler = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusUnauthorized)
		_, _ = w.Write([]byte(`{"error":{"message":"the key is wrong","type":"invalid_request_error"}}`))
	})
	go func() { _ = r.Serve(l) }() // it returns when it is closed
	return r, nil
}
