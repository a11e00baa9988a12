package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/internal/control"
	"github.com/corebot/corebot/internal/operate"
	"github.com/corebot/corebot/internal/sorted"
)

func newChats(s *shell) *cobra.Command {
	return group("chats", "List, show, search, set, reset, fork, rewind, link, export and delete chats",
		newChatsList(s), newChatsShow(s), newChatsContext(s), newChatsSearch(s),
		newChatsRegister(s), newChatsSet(s), newChatsModel(s), newChatsThink(s), newChatsReset(s), newChatsFork(s),
		newChatsRewind(s), newChatsLink(s), newChatsUnlink(s), newChatsExport(s), newChatsDelete(s))
}

func newChatsList(s *shell) *cobra.Command {
	var asJSON bool
	var channel string
	var limit int
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List the chats that Corebot knows, the one that was used last first",
		Args:  takes(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			_, err := chatTable.print(cmd, asJSON, limit, func(p operate.Part) (operate.Page[operate.Chat], error) {
				return look(s, cmd, operate.ListChats, operate.ChatsQuery{Channel: channel, Recent: true, Part: p})
			})
			return err
		},
	}
	jsonFlag(cmd, &asJSON)
	cmd.Flags().StringVar(&channel, "channel", "", "of this channel only")
	limitFlag(cmd, &limit, 1000, "at most this many")
	return cmd
}

var chatTable = listing[operate.Chat]{
	header: "KEY\tNAME\tREGISTERED\tACCESS\tSESSION\tMODE\tLAST USED",
	none:   "no chats",
	cells: func(c operate.Chat) string {
		return fmt.Sprintf("%s\t%s\t%v\t%s\t%d\t%s\t%s", c.Key, oneLine(c.DisplayName, 30), c.Registered,
			cmp.Or(c.Access, byDefault), c.Session,
			cmp.Or(c.QueueMode, byDefault), c.LastUsedAt.Local().Format(time.DateTime))
	},
}

func newChatsShow(s *shell) *cobra.Command {
	var asJSON bool
	var limit int
	cmd := &cobra.Command{
		Use:   "show KEY",
		Short: "Show a chat and the history that is in play",
		Args:  takes("KEY"),
		RunE: func(cmd *cobra.Command, args []string) error {
			key, err := s.chat(cmd, args[0])
			if err != nil {
				return err
			}
			found, err := look(s, cmd, operate.ShowChat, operate.ChatQuery{Key: key, Limit: limit})
			if err != nil {
				return err
			}
			if asJSON {
				return printJSON(cmd, found)
			}
			return printHistory(cmd, found)
		},
	}
	jsonFlag(cmd, &asJSON)
	limitFlag(cmd, &limit, 50, "at most this many entries, the newest")
	return cmd
}

func newChatsSearch(s *shell) *cobra.Command {
	var asJSON bool
	var limit int
	cmd := &cobra.Command{
		Use:   "search KEY WORDS",
		Short: "Find what was said in a chat",
		Long: `Find what was said in a chat, in all its sessions. Without llm.embeddings all words must occur, and the
newest entries come first; where nothing has all words, entries with most of them are printed. With
llm.embeddings a running Corebot also looks for a like meaning, and the best come first. Words in
double quotes are searched as they stand.`,
		Args: takes("KEY", "WORDS"),
		RunE: func(cmd *cobra.Command, args []string) error {
			key, err := s.chat(cmd, args[0])
			if err != nil {
				return err
			}
			found, err := look(s, cmd, operate.SearchHistory,
				operate.SayingsQuery{Key: key, Text: args[1], Limit: limit})
			if err != nil {
				return err
			}
			if asJSON {
				return printJSON(cmd, found)
			}
			return printFound(cmd, found)
		},
	}
	jsonFlag(cmd, &asJSON)
	limitFlag(cmd, &limit, 10, "at most this many entries")
	return cmd
}

func printFound(cmd *cobra.Command, f operate.FoundSayings) error {
	t := &teller{w: cmd.OutOrStdout()}
	if f.Without != "" {
		t.line("searched by words alone: %s\n", oneLine(f.Without, 200))
	}
	switch {
	case len(f.Rows) == 0:
		t.line("nothing like that was said in this chat")
	case f.Meaning:
		t.line("by words and by meaning, the best first:\n")
	case !f.Whole:
		t.line("nothing has all of that; these have some of it:\n")
	}
	for _, e := range f.Rows {
		t.line("%s  %s", clock(e.At), entryLine(e))
	}
	return t.err
}

// entryLine is an entry of the history in one line, without its time.
func entryLine(e corebot.HistoryEntry) string {
	who := string(e.Speaker)
	if e.Name != "" {
		who += " " + oneLine(e.Name, 30)
	}
	text := oneLine(e.Text(), 300)
	for _, c := range e.Calls {
		text += fmt.Sprintf(" [%s %s]", oneLine(c.Tool, 40), oneLine(string(c.Args), 80))
	}
	return fmt.Sprintf("%-10s %s", who, text)
}

func printHistory(cmd *cobra.Command, c operate.Conversation) error {
	t, chat, summary := &teller{w: cmd.OutOrStdout()}, c.Chat, c.Summary
	t.line("%s  %s", chat.Key, oneLine(chat.DisplayName, 60))
	t.line("registered %v, access %s, session %d, queue mode %s, since %s\n", chat.Registered,
		cmp.Or(chat.Access, byDefault), chat.Session,
		cmp.Or(chat.QueueMode, byDefault), chat.CreatedAt.Local().Format(time.DateTime))
	if !summary.At.IsZero() {
		t.line("what the model is shown of older messages, by %s at %s:\n%s\n",
			cmp.Or(oneLine(summary.Model, 64), "an extract"), clock(summary.At), printable(summary.Text))
	}
	for _, e := range c.History {
		t.line("%s  %s", clock(e.At), entryLine(e))
	}
	return t.err
}

func newChatsRegister(s *shell) *cobra.Command {
	var name string
	var off bool
	cmd := &cobra.Command{
		Use:   "register KEY",
		Short: "Mark a chat as registered, or with --off as not",
		Args:  takes("KEY"),
		RunE: func(cmd *cobra.Command, args []string) error {
			said := "registered"
			if off {
				said = "no longer registered:"
			}
			return changeChat(s, cmd, operate.RegisterChat, args[0], operate.ChatChange{Registered: !off, Name: name},
				said)
		},
	}
	cmd.Flags().StringVar(&name, "name", "", "a name for display")
	cmd.Flags().BoolVar(&off, "off", false, "take the registration away")
	return cmd
}

func newChatsReset(s *shell) *cobra.Command {
	return &cobra.Command{
		Use:   "reset KEY",
		Short: "Begin a new conversation in a chat; what was said is kept and out of play",
		Args:  takes("KEY"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return changeChat(s, cmd, operate.ResetChat, args[0], operate.ChatChange{}, "reset")
		},
	}
}

func changeChat(s *shell, cmd *cobra.Command, op operate.Operation[operate.ChatChange, operate.Done], key string,
	change operate.ChatChange, said string,
) (err error) {
	if change.Key, err = s.chat(cmd, key); err != nil {
		return err
	}
	return s.change(cmd, func(c control.Caller) error {
		if _, err := op.Call(cmd.Context(), c, change); err != nil {
			return err
		}
		_, err := fmt.Fprintf(cmd.OutOrStdout(), "%s %s\n", said, change.Key)
		return err
	})
}

func newChatsModel(s *shell) *cobra.Command {
	return &cobra.Command{
		Use:   "model KEY MODEL",
		Short: "Have a chat's conversation be answered by another model",
		Long: `Have a chat's conversation be answered by another of the models that its agent may ask, named
as its provider does or as PROVIDER/MODEL; the agent's others answer if it fails. A new conversation
(/new) goes back to the configured order, and so does "default". A turn that has begun keeps its
model.`,
		Args: takes("KEY", "MODEL"),
		RunE: func(cmd *cobra.Command, args []string) error {
			key, err := s.chat(cmd, args[0])
			if err != nil {
				return err
			}
			change := operate.ModelChange{Key: key, Model: args[1]}
			if change.Model == byDefault {
				change.Model = ""
			}
			return s.change(cmd, func(c control.Caller) error {
				if _, err := operate.SetChatModel.Call(cmd.Context(), c, change); err != nil {
					return err
				}
				_, err := fmt.Fprintf(cmd.OutOrStdout(), "model of %s: %s\n", key, printable(args[1]))
				return err
			})
		},
	}
}

func newChatsContext(s *shell) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "context KEY",
		Short: "Show what the next request of a chat to its model would carry, in tokens",
		Long: `Show what the next request of a chat to its model would carry, in tokens, when the older part of
the conversation is summarised, and what the conversation has cost so far. The tools are those that
the owner of the home would be offered. A Corebot must run: it knows its MCP servers.`,
		Args: takes("KEY"),
		RunE: func(cmd *cobra.Command, args []string) error {
			key, err := s.chat(cmd, args[0])
			if err != nil {
				return err
			}
			daemon, err := s.daemon(cmd.Context(), "run it: corebot serve; or write /context in the chat")
			if err != nil {
				return err
			}
			found, err := operate.ReadContext.Call(cmd.Context(), daemon, operate.ContextQuery{Key: key})
			if err != nil {
				return err
			}
			if asJSON {
				return printJSON(cmd, found.ContextUse)
			}
			_, err = fmt.Fprintln(cmd.OutOrStdout(), printable(found.Text))
			return err
		},
	}
	jsonFlag(cmd, &asJSON)
	return cmd
}

func newChatsThink(s *shell) *cobra.Command {
	return &cobra.Command{
		Use:   "think KEY LEVEL",
		Short: "Set how much models think in a chat's conversation",
		Long: `Set how much models think in a chat's conversation before they answer: off, minimal, low, medium or
high. A model that lacks the level does what is nearest. A new conversation (/new) goes back to what is
configured, and so does "default". A turn that has begun keeps its level.`,
		Args: takes("KEY", "LEVEL"),
		RunE: func(cmd *cobra.Command, args []string) error {
			key, err := s.chat(cmd, args[0])
			if err != nil {
				return err
			}
			change := operate.ThinkChange{Key: key}
			if args[1] != byDefault {
				if change.Think, err = corebot.ParseThinking(args[1]); err != nil {
					return usage(cmd, err)
				}
			}
			return s.change(cmd, func(c control.Caller) error {
				if _, err := operate.SetChatThink.Call(cmd.Context(), c, change); err != nil {
					return err
				}
				_, err := fmt.Fprintf(cmd.OutOrStdout(), "thinking in %s: %s\n", key, args[1])
				return err
			})
		},
	}
}

// byDefault is how the command line asks for a setting to be the configured one again.
const byDefault = "default"

func newChatsSet(s *shell) *cobra.Command {
	var mode, access string
	cmd := &cobra.Command{
		Use:   "set KEY [--queue-mode MODE] [--access ACCESS]",
		Short: "Change the settings of a chat",
		Long: `Change the settings of a chat; each holds from the next message on.

The queue mode says what becomes of a message that comes while another is being answered: with queue
it waits its turn; with steer the answer that is being made takes it in; with interrupt it ends that
answer, if that is to the same sender; with collect the messages of one sender that wait are
answered together, after bus.collect_debounce. "default" is bus.queue_mode. What waits already stays
as it is.

The access says who may talk in the chat: with allow whoever is in it, with deny nobody, whatever
the rule of its channel is. "default" is that rule, such as channels.webhook.access. It holds in the
threads of the chat too.`,
		Args: takes("KEY"),
		RunE: func(cmd *cobra.Command, args []string) error {
			key, err := s.chat(cmd, args[0])
			if err != nil {
				return err
			}
			if mode == "" && access == "" {
				return usage(cmd, errors.New("want --queue-mode, --access or both"))
			}
			changes, err := chatSettings(key, mode, access)
			if err != nil {
				return usage(cmd, err)
			}
			return s.change(cmd, func(c control.Caller) error {
				for _, change := range changes {
					if _, err := change.make(cmd.Context(), c); err != nil {
						return err
					}
					if _, err := fmt.Fprintf(cmd.OutOrStdout(), "%s of %s: %s\n", change.what, key,
						change.to); err != nil {
						return err
					}
				}
				return nil
			})
		},
	}
	cmd.Flags().StringVar(&mode, "queue-mode", "", "queue, steer, interrupt, collect or default")
	cmd.Flags().StringVar(&access, "access", "", "allow, deny or default")
	return cmd
}

// setting is one change of a chat that is asked for.
type setting struct {
	what, to string
	make     func(context.Context, control.Caller) (operate.Done, error)
}

// chatSettings reads what is to change; what is empty stays.
func chatSettings(key corebot.Key, mode, access string) (changes []setting, err error) {
	if mode != "" {
		change := operate.ModeChange{Key: key}
		if mode != byDefault {
			if change.Mode, err = corebot.ParseQueueMode(mode); err != nil {
				return nil, fmt.Errorf("--queue-mode %q: want queue, steer, interrupt, collect or default", mode)
			}
		}
		changes = append(changes, setting{
			"queue mode", mode,
			func(ctx context.Context, c control.Caller) (operate.Done, error) {
				return operate.SetQueueMode.Call(ctx, c, change)
			},
		})
	}
	if access != "" {
		change := operate.AccessChange{Key: key}
		if access != byDefault {
			if change.Access, err = corebot.ParseChatAccess(access); err != nil {
				return nil, fmt.Errorf("--access %q: want allow, deny or default", access)
			}
		}
		changes = append(changes, setting{
			"access", access,
			func(ctx context.Context, c control.Caller) (operate.Done, error) {
				return operate.SetChatAccess.Call(ctx, c, change)
			},
		})
	}
	return changes, nil
}

// maxTalks bounds how many chats of terminals are listed, those that were used last.
const maxTalks = 100

// talked is a chat of terminals in the list.
type talked struct {
	operate.Chat
	key  corebot.Key
	at   time.Time // of the newest message
	text string    // of the newest message
}

// name is what a person calls the chat.
func (t talked) name() string { return cmp.Or(t.DisplayName, t.ChatID) }

// talks gives the chats of terminals, the chat with the newest message first; with an agent only its chats.
func (s *shell) talks(cmd *cobra.Command, agent string) (found []talked, err error) {
	all, err := look(s, cmd, operate.ListChats, operate.ChatsQuery{
		Channel: corebot.TerminalChannel, Recent: true, Part: operate.Part{Limit: maxTalks},
	})
	if errors.Is(err, fs.ErrNotExist) { // there is no database yet
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	for _, c := range all.Rows {
		key, err := corebot.ParseKey(c.Key)
		if err != nil {
			return nil, err
		}
		if agent != "" && agent != key.Agent {
			continue
		}
		query := operate.HistoryQuery{Key: key, Part: operate.Part{Limit: 1}}
		said, err := look(s, cmd, operate.ReadHistory, query)
		if err != nil {
			return nil, err
		}
		t := talked{Chat: c, key: key, at: c.CreatedAt}
		if len(said.Rows) > 0 {
			t.at, t.text = said.Rows[0].At, said.Rows[0].Text()
		}
		found = append(found, t)
	}
	sorted.By(found, func(a, b talked) int { return b.at.Compare(a.at) })
	return found, nil
}

func (s *shell) listTalks(cmd *cobra.Command, agent string) error {
	found, err := s.talks(cmd, agent)
	if err != nil {
		return err
	}
	t := &teller{w: cmd.OutOrStdout()}
	if len(found) == 0 {
		t.line("no chats")
	}
	for i, c := range found {
		t.line("%3d  %-24s %s  %s", i+1, oneLine(c.name(), 24), c.at.Local().Format("2006-01-02 15:04"),
			oneLine(c.text, 48))
	}
	return t.err
}

// resumed finds the chat that a number of the list, a name or an id means.
func (s *shell) resumed(cmd *cobra.Command, agent, wanted string) (corebot.Key, error) {
	found, err := s.talks(cmd, agent)
	if err != nil {
		return corebot.Key{}, err
	}
	if n, err := strconv.Atoi(wanted); err == nil && n > 0 && n <= len(found) {
		return found[n-1].key, nil
	}
	meant := slices.DeleteFunc(found, func(t talked) bool { return t.DisplayName != wanted && t.ChatID != wanted })
	hint := "`corebot chat --list` shows the numbers and names"
	switch len(meant) {
	case 1:
		return meant[0].key, nil
	case 0:
		return corebot.Key{}, corebot.WithHint(fmt.Errorf("the chat %q: %w", wanted, corebot.ErrNotFound), hint)
	}
	return corebot.Key{}, corebot.WithHint(fmt.Errorf("%w: %d chats are called %q", corebot.ErrInvalid, len(meant),
		wanted), hint)
}
