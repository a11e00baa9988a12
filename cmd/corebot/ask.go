package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"

	"golang.org/x/term"

	"github.com/corebot/corebot/internal/typeahead"
)

// asker asks a person at a terminal, one line at a time. Enter takes the default.
type asker struct {
	in    *os.File
	out   io.Writer
	lines chan typed // what was read; one read is under way at most
}

type typed struct {
	text string
	err  error
}

// maxTries is how often one question is asked.
const maxTries = 3

var (
	errInterrupted = errors.New("interrupted: nothing was changed")
	errNoSense     = errors.New("no answer that makes sense came: nothing was changed")
)

// newAsker is nil unless a person sits at both ends. It writes past what hides secrets, which holds lines back until
// they end: a question does not end its line.
func newAsker(in io.Reader, out io.Writer) *asker {
	if h, is := out.(*hiding); is {
		out = h.to
	}
	i, isFile := in.(*os.File)
	o, drawn := out.(*os.File)
	if !isFile || !drawn || !term.IsTerminal(int(i.Fd())) || !term.IsTerminal(int(o.Fd())) {
		return nil
	}
	return &asker{in: i, out: o, lines: make(chan typed, 1)}
}

// read waits for what read gives, and no longer than ctx. A read that was given up stays behind: the program ends.
func (a *asker) read(ctx context.Context, read func() (string, error)) (string, error) {
	go func() {
		text, err := read()
		a.lines <- typed{text, err}
	}()
	select {
	case <-ctx.Done():
		return "", errInterrupted
	case l := <-a.lines:
		if errors.Is(l.err, io.EOF) {
			return "", errInterrupted
		}
		return strings.TrimSpace(l.text), l.err
	}
}

// line reads up to the end of the line and no further, so that nothing of the next answer is lost.
func (a *asker) line() (string, error) {
	var text bytes.Buffer
	for one := []byte{0}; ; {
		n, err := a.in.Read(one)
		switch {
		case n == 1 && one[0] == '\n':
			return text.String(), nil
		case n == 1 && text.Len() < 4096:
			text.WriteByte(one[0])
		}
		if err != nil {
			return "", err
		}
	}
}

// ask asks until check takes the answer, [maxTries] times at most. A refused answer is shown with the reason.
func (a *asker) ask(ctx context.Context, question, standard string, check func(string) error) (string, error) {
	for range maxTries {
		fmt.Fprintf(a.out, "%s", question)
		if standard != "" {
			fmt.Fprintf(a.out, " [%s]", printable(standard))
		}
		fmt.Fprint(a.out, ": ")
		text, err := a.read(ctx, a.line)
		if err != nil {
			fmt.Fprintln(a.out)
			return "", err
		}
		if text == "" {
			text = standard
		}
		if err = check(text); err == nil {
			return text, nil
		}
		if ctx.Err() != nil {
			return "", errInterrupted
		}
		a.refuse(err)
	}
	return "", errNoSense
}

// confirm asks for a yes. Without one nothing was changed, which the error says.
func (a *asker) confirm(ctx context.Context, question string) error {
	answer, err := a.ask(ctx, question+" (y/n)", "n", func(text string) error {
		if text = strings.ToLower(text); text != "y" && text != "n" && text != "yes" && text != "no" {
			return errors.New("answer y or n")
		}
		return nil
	})
	if err == nil && !strings.HasPrefix(strings.ToLower(answer), "y") {
		err = errors.New("nothing was changed")
	}
	return err
}

func (a *asker) refuse(err error) { report(a.out, err) }

// secret reads a line that is not shown. The terminal is silent before the question stands there, so that not even a
// fast paste shows.
func (a *asker) secret(ctx context.Context, question string) (string, error) {
	restore, err := typeahead.Silence(a.in)
	if err != nil {
		return "", err
	}
	fmt.Fprintf(a.out, "%s (it is not shown): ", question)
	text, err := a.read(ctx, a.line)
	fmt.Fprintln(a.out) // the Enter is not shown either
	return text, errors.Join(err, restore())
}

// option is one of several answers.
type option struct{ name, text string }

// choose asks for one of several answers, by its number or name.
func (a *asker) choose(ctx context.Context, question string, options []option, standard string) (string, error) {
	fmt.Fprintln(a.out, question)
	first := "1"
	for i, o := range options {
		fmt.Fprintf(a.out, "  %d  %s", i+1, printable(o.name))
		if o.text != "" {
			fmt.Fprintf(a.out, ": %s", printable(o.text))
		}
		fmt.Fprintln(a.out)
		if o.name == standard {
			first = strconv.Itoa(i + 1)
		}
	}
	var chosen string
	_, err := a.ask(ctx, "Number or name", first, func(text string) error {
		for i, o := range options {
			if text == strconv.Itoa(i+1) || strings.EqualFold(text, o.name) {
				chosen = o.name
				return nil
			}
		}
		return fmt.Errorf("%q is neither a number from 1 to %d nor one of the names", text, len(options))
	})
	return chosen, err
}

// yes asks a question of yes or no.
func (a *asker) yes(ctx context.Context, question string, standard bool) (bool, error) {
	hint, is := "y/N", standard
	if standard {
		hint = "Y/n"
	}
	_, err := a.ask(ctx, question+" ("+hint+")", "", func(text string) error {
		switch strings.ToLower(text) {
		case "":
			is = standard
		case "y", "yes":
			is = true
		case "n", "no":
			is = false
		default:
			return fmt.Errorf("%q is neither y nor n", text)
		}
		return nil
	})
	return is, err
}
