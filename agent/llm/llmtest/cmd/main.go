// Model is a program for scripts: it serves the scripted model [llmtest.Clerk] as an OpenAI-compatible endpoint on a
// free port of loopback, until it gets a signal. It prints its address. Requests need the API key that is its argument.
package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/corebot/corebot/agent/llm/llmtest"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: model KEY")
		os.Exit(2)
	}
	if err := serve(ctx, os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, "model:", err)
		os.Exit(1)
	}
}

func serve(ctx context.Context, key string) error {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	fmt.Printf("http://%s/v1\n", l.Addr())
	s := &http.Server{
		ReadHeaderTimeout: time.Second,
		Handler:           llmtest.Keyed(key, llmtest.Clerk),
	}
	defer context.AfterFunc(ctx, func() { _ = s.Close() })()
	if err := s.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}
