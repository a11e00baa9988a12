package main

import (
	"cmp"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/internal/control"
	"github.com/corebot/corebot/internal/operate"
)

func newMemory(s *shell) *cobra.Command {
	return group("memory", "Show, search, trust and forget what agents remember", newMemoryShow(s),
		newMemorySearch(s), newMemoryTrust(s), newMemoryForget(s), newFacts(s))
}

func newMemoryShow(s *shell) *cobra.Command {
	var asJSON, sources bool
	var agent, channel string
	cmd := &cobra.Command{
		Use:   "show [KEY]",
		Short: "Print the memory of a chat and who wrote each line, or the memory of all chats",
		Long: `Print the memory of a chat, and who wrote each line. A turn that reads an untrusted line is tainted.
With --channel, print the memory that all chats of an account of a channel share. Without a chat, print
the memory that every chat of the agent reads; --sources adds who wrote each line.`,
		Args: maybe("KEY"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 && channel == "" && !sources {
				page, err := look(s, cmd, operate.ReadGlobalMemory, operate.ByAgent{Agent: agent})
				if err != nil {
					return err
				}
				if asJSON {
					return printJSON(cmd, page)
				}
				_, err = fmt.Fprintf(cmd.OutOrStdout(), "%s\n\n%s\n", page.Path,
					strings.TrimRight(cmp.Or(printable(page.Text), "nothing is remembered"), "\n"))
				return err
			}
			_, page, err := s.memoryOf(cmd, channel, agent, args...)
			if err != nil {
				return err
			}
			if asJSON {
				return printJSON(cmd, page)
			}
			return printMemory(cmd, page)
		},
	}
	jsonFlag(cmd, &asJSON)
	agentFlag(cmd, &agent)
	sharedFlag(cmd, &channel)
	cmd.Flags().BoolVar(&sources, "sources", false, "who wrote each line of the memory of all chats")
	cmd.MarkFlagsMutuallyExclusive("channel", "sources")
	return cmd
}

func sharedFlag(cmd *cobra.Command, channel *string) {
	cmd.Flags().StringVar(channel, "channel", "", "the memory of this account of a channel: KIND or KIND/ACCOUNT")
}

// memoryOf reads the memory of a chat, or of an account of a channel. If neither is named, it reads the memory of all
// chats of an agent.
func (s *shell) memoryOf(cmd *cobra.Command, channel, agent string, chat ...string) (k corebot.Key,
	page operate.MemoryPage, err error,
) {
	switch {
	case len(chat) > 0 && (channel != "" || agent != ""):
		return k, page, usage(cmd, errors.New("a chat has its own memory: name it without --channel and --agent"))
	case len(chat) > 0:
		k, err = s.chat(cmd, chat[0])
	default:
		k, err = s.sharedKey(channel, agent)
	}
	if err != nil {
		return k, page, err
	}
	page, err = look(s, cmd, operate.ReadMemory, operate.MemoryQuery{Key: k})
	return k, page, err
}

// sharedKey is the key of what all chats of an account of a channel share, or all chats of an agent. An empty agent is
// the one that the settings mean where none is named.
func (s *shell) sharedKey(channel, agent string) (k corebot.Key, err error) {
	if k.Agent = agent; agent == "" {
		c, err := s.settings()
		if err != nil {
			return k, err
		}
		k.Agent = c.DefaultAgent()
	}
	k.Channel, k.Account, _ = strings.Cut(channel, "/")
	return k, nil
}

func printMemory(cmd *cobra.Command, page operate.MemoryPage) error {
	t := &teller{w: cmd.OutOrStdout()}
	if len(page.Pieces) == 0 {
		t.line("%s: nothing is remembered", page.Chat)
		return t.err
	}
	t.line("%s  fingerprint %s", page.Chat, page.Fingerprint[:shownFingerprint])
	if page.Cut {
		t.line("the file is too large: this is its beginning")
	}
	for _, p := range page.Pieces {
		t.line("\n%s", sourceOf(p))
		n := p.Line
		for text := range strings.Lines(p.Text) {
			t.line("%5d  %s", n, printable(strings.TrimRight(text, "\r\n")))
			n++
		}
	}
	return t.err
}

// shownFingerprint is how much of a fingerprint people are shown, and have to give back.
const shownFingerprint = 16

// sourceOf says in words where a piece of memory came from.
func sourceOf(p operate.MemoryPiece) string {
	var words []string
	switch {
	case p.Trusted:
		words = append(words, "trusted")
	case !p.Clean && p.Taint != "":
		words = append(words, "untrusted: "+oneLine(p.Taint, 200))
	case !p.Clean:
		words = append(words, "untrusted: its sender is not known")
	}
	if p.Sender != "" {
		words = append(words, "by "+oneLine(p.Sender, 100))
	}
	if p.MessageID != "" {
		words = append(words, "in the turn of message "+oneLine(p.MessageID, 100))
	}
	if !p.At.IsZero() {
		words = append(words, p.At.Local().Format(time.DateTime))
	}
	return strings.Join(words, ", ")
}

func newMemorySearch(s *shell) *cobra.Command {
	var asJSON bool
	var agent string
	var limit int
	cmd := &cobra.Command{
		Use:   "search WORDS",
		Short: "Print the remembered lines that have all of some words",
		Long: `Print the remembered lines that have all of some words: of the memory of all chats, then of each chat.
Quoted words are a phrase, and a word that ends with * is the beginning of one.`,
		Args: takes("WORDS"),
		RunE: func(cmd *cobra.Command, args []string) error {
			_, err := memoryTable.print(cmd, asJSON, limit,
				func(p operate.Part) (operate.Page[operate.MemoryLine], error) {
					return look(s, cmd, operate.SearchMemory, operate.MemorySearch{
						ByAgent: operate.ByAgent{Agent: agent}, Text: args[0], Part: p,
					})
				})
			return err
		},
	}
	jsonFlag(cmd, &asJSON)
	limitFlag(cmd, &limit, 100, "at most this many lines")
	cmd.Flags().StringVar(&agent, "agent", "", "of this agent only: its id")
	return cmd
}

var memoryTable = listing[operate.MemoryLine]{
	header: "CHAT\tLINE\tTEXT",
	none:   "nothing is remembered that has these words",
	cells: func(l operate.MemoryLine) string {
		chat := l.Chat
		if chat == "" {
			chat = "(all chats)"
		}
		return fmt.Sprintf("%s\t%d\t%s", chat, l.Line, oneLine(l.Text, 200))
	},
}

func newMemoryTrust(s *shell) *cobra.Command {
	var channel, agent string
	cmd := &cobra.Command{
		Use:   "trust [KEY] FINGERPRINT",
		Short: "Stand for all of a chat's memory, as memory show printed it",
		Long: `Stand for all of a chat's memory, as "corebot memory show" printed it: read it first. Turns that read
these lines are no longer tainted by them. The fingerprint is the one that was printed; a page that
has changed since is refused. With --channel it is the memory that all chats of an account share.`,
		Args: cobra.RangeArgs(1, 2),
		RunE: func(cmd *cobra.Command, args []string) error {
			chat, print := args[:len(args)-1], args[len(args)-1]
			if len(chat) == 0 && channel == "" {
				return usage(cmd, errors.New("say whose memory: KEY or --channel"))
			}
			if len(print) < shownFingerprint {
				return usage(cmd, fmt.Errorf("the fingerprint has at least %d characters", shownFingerprint))
			}
			key, page, err := s.memoryOf(cmd, channel, agent, chat...)
			if err != nil {
				return err
			}
			if len(page.Pieces) == 0 {
				return fmt.Errorf("the memory of %s: %w", page.Chat, corebot.ErrNotFound)
			}
			if !strings.HasPrefix(page.Fingerprint, print) {
				return corebot.WithHint(fmt.Errorf("the memory of %s does not have the fingerprint %s", page.Chat,
					oneLine(print, 64)), "`corebot memory show` with the same chat or channel shows the fingerprint")
			}
			return changeMemory(s, cmd, operate.TrustMemory,
				operate.MemoryTrust{Key: key, Fingerprint: page.Fingerprint},
				func(operate.Done) string { return "the memory of " + page.Chat + " is trusted as it is" })
		},
	}
	sharedFlag(cmd, &channel)
	agentFlag(cmd, &agent)
	return cmd
}

func newMemoryForget(s *shell) *cobra.Command {
	var lines []int
	var all, untrusted bool
	var channel, agent string
	cmd := &cobra.Command{
		Use:   "forget [KEY] (--line N | --untrusted | --all)",
		Short: "Delete lines of a chat's memory",
		Long: `Delete lines of a chat's memory. "corebot memory show" prints their numbers. The lines leave the file,
and search. The audit keeps that lines were deleted, and not which. History is not changed. With
--channel it is the memory that all chats of an account share.`,
		Args: maybe("KEY"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if !all && !untrusted && len(lines) == 0 {
				return usage(cmd, errors.New("say which lines: --line N, --untrusted or --all"))
			}
			if len(args) == 0 && channel == "" {
				return usage(cmd, errors.New("say whose memory: KEY or --channel"))
			}
			key, page, err := s.memoryOf(cmd, channel, agent, args...)
			if err != nil {
				return err
			}
			if len(page.Pieces) == 0 {
				return fmt.Errorf("the memory of %s: %w", page.Chat, corebot.ErrNotFound)
			}
			return changeMemory(s, cmd, operate.ForgetMemory,
				operate.MemoryLoss{Key: key, Fingerprint: page.Fingerprint, All: all, Lines: lines},
				func(d operate.Done) string { return fmt.Sprintf("lines forgotten: %d", d.Changed) })
		},
	}
	cmd.Flags().IntSliceVar(&lines, "line", nil, "the number of a line; several: --line 2,5")
	cmd.Flags().BoolVar(&untrusted, "untrusted", false, "all lines that memory show calls untrusted")
	cmd.Flags().BoolVar(&all, "all", false, "all lines")
	sharedFlag(cmd, &channel)
	agentFlag(cmd, &agent)
	cmd.MarkFlagsMutuallyExclusive("line", "untrusted", "all")
	return cmd
}

// changeMemory carries out a change of a page that was read, and says what came of it.
func changeMemory[A any](s *shell, cmd *cobra.Command, op operate.Operation[A, operate.Done], args A,
	said func(operate.Done) string,
) error {
	return s.change(cmd, func(c control.Caller) error {
		done, err := op.Call(cmd.Context(), c, args)
		if err != nil {
			return err
		}
		_, err = fmt.Fprintln(cmd.OutOrStdout(), said(done))
		return err
	})
}
