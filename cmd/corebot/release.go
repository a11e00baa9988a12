package main

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/internal/app"
	"github.com/corebot/corebot/storage"
)

// versionLine is what `corebot version` and `corebot --version` print.
func versionLine() string {
	return fmt.Sprintf("corebot %s (%s, schema %d)", app.Version(), runtime.Version(), storage.SchemaVersion())
}

// nameVersion lets templates of cobra print the line, which only few commands need. To find the newest schema takes a
// fiftieth of a start.
var nameVersion = sync.OnceFunc(func() { cobra.AddTemplateFunc("versionLine", versionLine) })

func newVersion() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "version",
		Short: "Print the version",
		Args:  takes(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if asJSON {
				return printJSON(cmd, map[string]any{
					"version": app.Version(), "go": runtime.Version(),
					"schema": storage.SchemaVersion(),
				})
			}
			_, err := fmt.Fprintln(cmd.OutOrStdout(), versionLine())
			return err
		},
	}
	jsonFlag(cmd, &asJSON)
	return cmd
}

func newMan() *cobra.Command {
	return &cobra.Command{
		Use:   "man DIR",
		Short: "Write a manual page for every command into a directory",
		Long: `Write a manual page for every command into a directory, which is made if it is missing: corebot.1,
corebot-chat.1 and so on. "man DIR/corebot-chat.1" shows one.`,
		Args: takes("DIR"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := os.MkdirAll(args[0], 0o755); err != nil {
				return corebot.WithHint(fmt.Errorf("make the directory for manual pages: %w", err),
					"name a directory that can be written")
			}
			pages := 0
			err := eachCommand(cmd.Root(), func(c *cobra.Command) error {
				pages++
				file := filepath.Join(args[0], manName(c)+".1")
				if err := os.WriteFile(file, []byte(manPage(c)), 0o644); err != nil {
					return fmt.Errorf("write a manual page: %w", err)
				}
				return nil
			})
			if err != nil {
				return err
			}
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "wrote %s\n", count(int64(pages), "page"))
			return err
		},
	}
}

// eachCommand walks over a command and all below it that people are shown.
func eachCommand(c *cobra.Command, fn func(*cobra.Command) error) error {
	if c.Hidden || c.Deprecated != "" {
		return nil
	}
	if err := fn(c); err != nil {
		return err
	}
	for _, sub := range c.Commands() {
		if err := eachCommand(sub, fn); err != nil {
			return err
		}
	}
	return nil
}

func manName(c *cobra.Command) string { return strings.ReplaceAll(c.CommandPath(), " ", "-") }

// manPage is the manual page of a command, in the macros of man(7). It has no date and no version, so that the same
// commands give the same bytes.
func manPage(c *cobra.Command) string {
	var b strings.Builder
	fmt.Fprintf(&b, ".TH %s 1 \"\" Corebot\n", roff(strings.ToUpper(manName(c))))
	fmt.Fprintf(&b, ".SH NAME\n%s \\- %s\n", roff(manName(c)), roff(c.Short))
	fmt.Fprintf(&b, ".SH SYNOPSIS\n.B %s\n", roff(c.UseLine()))
	about := c.Long
	if about == "" {
		about = c.Short + "."
	}
	fmt.Fprintf(&b, ".SH DESCRIPTION\n%s\n", roff(about))
	manFlags(&b, "OPTIONS", c.NonInheritedFlags())
	manFlags(&b, "GLOBAL OPTIONS", c.InheritedFlags())
	var below []string
	for _, sub := range c.Commands() {
		if !sub.Hidden && sub.Deprecated == "" {
			below = append(below, fmt.Sprintf(".TP\n.B %s\n%s\n", roff(sub.Name()), roff(sub.Short)))
		}
	}
	if len(below) > 0 {
		b.WriteString(".SH COMMANDS\n" + strings.Join(below, ""))
	}
	b.WriteString(manSeeAlso(c))
	return b.String()
}

func manFlags(w io.Writer, title string, flags *pflag.FlagSet) {
	if !flags.HasAvailableFlags() {
		return
	}
	fmt.Fprintf(w, ".SH %s\n", title)
	flags.VisitAll(func(f *pflag.Flag) {
		if f.Hidden {
			return
		}
		value, about := pflag.UnquoteUsage(f)
		name := "--" + f.Name
		if f.Shorthand != "" {
			name = "-" + f.Shorthand + ", " + name
		}
		fmt.Fprintf(w, ".TP\n.B %s\n%s\n", roff(strings.TrimSpace(name+" "+value)), roff(about))
	})
}

func manSeeAlso(c *cobra.Command) string {
	var also []string
	if c.HasParent() {
		also = append(also, manName(c.Parent()))
	}
	for _, sub := range c.Commands() {
		if !sub.Hidden && sub.Deprecated == "" {
			also = append(also, manName(sub))
		}
	}
	if len(also) == 0 {
		return ""
	}
	for i, name := range also {
		also[i] = ".BR " + roff(name) + " (1)"
	}
	return ".SH SEE ALSO\n" + strings.Join(also, ",\n") + "\n"
}

// roff makes text mean itself: no backslash, no line that begins like a request, and hyphens that can be searched for.
// An empty line begins a paragraph.
func roff(s string) string {
	lines := strings.Split(strings.NewReplacer(`\`, `\e`, "-", `\-`).Replace(strings.TrimSpace(s)), "\n")
	for i, line := range lines {
		switch {
		case line == "":
			lines[i] = ".PP"
		case strings.HasPrefix(line, ".") || strings.HasPrefix(line, "'"):
			lines[i] = `\&` + line
		}
	}
	return strings.Join(lines, "\n")
}
