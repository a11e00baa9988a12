// Command cmd talks to a webhook for the scripts, so that they need Go and nothing else:
//
//	run     posts many messages at once and checks the replies (package load); prints a report as JSON
//	post    posts one message: post ID CHAT TEXT; prints "accepted" or "duplicate"
//	replies prints what a chat was told, a line each: replies CHAT
//	refuse  plays a model endpoint that takes no key: prints its address and answers 401 until it is ended
//
// Exit codes: 0 success, 1 a failed check, 2 wrong usage.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/corebot/corebot/internal/load"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "load:", err)
		if errors.Is(err, errUsage) {
			os.Exit(2)
		}
		os.Exit(1)
	}
}

var errUsage = errors.New(
	"usage: [-url URL] [-token-file FILE] [-timeout TIME] run|post ID CHAT TEXT|replies CHAT|refuse")

func run(ctx context.Context, args []string) error {
	flags := flag.NewFlagSet("load", flag.ContinueOnError)
	url := flags.String("url", "http://127.0.0.1:8788", "of the webhook")
	tokenFile := flags.String("token-file", "", "its token")
	timeout := flags.Duration("timeout", time.Minute, "of everything")
	var o load.Options
	flags.IntVar(&o.Messages, "messages", 1000, "in all chats together")
	flags.IntVar(&o.Chats, "chats", 100, "at once")
	flags.IntVar(&o.Copies, "copies", 3, "of each message")
	flags.DurationVar(&o.Pause, "pause", 0, "of a chat after each message")
	flags.StringVar(&o.Prefix, "prefix", "", "of ids and chats")
	if err := flags.Parse(args); err != nil {
		return errors.Join(errUsage, err)
	}
	if flags.Arg(0) == "refuse" {
		return refuse(ctx)
	}
	token, err := os.ReadFile(*tokenFile)
	if err != nil {
		return fmt.Errorf("read the token: %w", err)
	}
	client := load.NewClient(*url, strings.TrimSpace(string(token)))
	defer client.Close()
	ctx, cancel := context.WithTimeout(ctx, *timeout)
	defer cancel()
	switch {
	case flags.Arg(0) == "run" && flags.NArg() == 1:
		return many(ctx, client, o)
	case flags.Arg(0) == "post" && flags.NArg() == 4:
		return post(ctx, client, load.Message{
			ID: flags.Arg(1), ChatID: flags.Arg(2), Sender: flags.Arg(2),
			Content: flags.Arg(3),
		})
	case flags.Arg(0) == "replies" && flags.NArg() == 2:
		return replies(ctx, client, flags.Arg(1))
	}
	return errUsage
}

func many(ctx context.Context, c *load.Client, o load.Options) error {
	report, err := load.Run(ctx, c, o)
	return errors.Join(err, json.NewEncoder(os.Stdout).Encode(report))
}

func post(ctx context.Context, c *load.Client, m load.Message) error {
	receipt, err := c.Post(ctx, m)
	if err != nil {
		return err
	}
	if receipt.Duplicate {
		_, err = fmt.Println("duplicate")
	} else {
		_, err = fmt.Println("accepted")
	}
	return err
}

func replies(ctx context.Context, c *load.Client, chat string) error {
	page, _, err := c.Replies(ctx, chat, "", 0)
	for _, r := range page {
		fmt.Printf("%s: %s\n", r.InReplyTo, strings.ReplaceAll(r.Content, "\n", " "))
	}
	return err
}

func refuse(ctx context.Context) error {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	fmt.Printf("http://%s\n", l.Addr())
	s := &http.Server{ReadHeaderTimeout: time.Second, Handler: http.HandlerFunc(func(w http.ResponseWriter,
		_ *http.Request,
	) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusUnauthorized)
		_,
			_ = w.Write([]byte(
			`{"error":{"message":"no such key","type":"invalid_request_error","code":"invalid_api_key"}}`))
	})}
	defer context.AfterFunc(ctx, func() { _ = s.Close() })()
	if err := s.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}
