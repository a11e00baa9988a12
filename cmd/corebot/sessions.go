package main

import (
	"fmt"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/internal/control"
	"github.com/corebot/corebot/internal/operate"
)

func newChatsFork(s *shell) *cobra.Command {
	var at string
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "fork KEY NAME",
		Short: "Begin a new chat with what was said in another one",
		Long: `Begin a new chat of the same agent, channel and account with what was said in the conversation of
another one: its summary, and at most 2,000 entries or 8 MiB behind it. With --at the history ends
with the answer to that message. The new chat has nothing else of the old one: no memory, file, task,
role, setting or approval. Messages that wait and answers that are being made stay with the old one.`,
		Args: takes("KEY", "NAME"),
		RunE: func(cmd *cobra.Command, args []string) error {
			key, err := s.chat(cmd, args[0])
			if err != nil {
				return err
			}
			fork := corebot.Fork{From: key, To: key, At: at}
			fork.To.Chat, fork.To.Thread = args[1], ""
			return s.change(cmd, func(c control.Caller) error {
				done, err := operate.ForkChat.Call(cmd.Context(), c, fork)
				if err != nil {
					return err
				}
				if asJSON {
					return printJSON(cmd, done)
				}
				t := &teller{w: cmd.OutOrStdout()}
				t.line("forked %s: %d entries of the history are in %s", key, done.Entries, done.Key)
				if done.Older > 0 {
					t.line("%d older entries were too many", done.Older)
				}
				return t.err
			})
		},
	}
	cmd.Flags().StringVar(&at, "at", "", "the id of the message whose answer is the last that the new chat has")
	jsonFlag(cmd, &asJSON)
	return cmd
}

func newChatsRewind(s *shell) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "rewind KEY [N]",
		Short: "Take back the last N messages of a chat and their answers; what tools did stays",
		Long: `Take the last N messages of a chat and their answers out of what the model is shown, by default the
last one. They are kept, and searches find them. What tools did meanwhile is not undone; /undo in the
chat undoes changes of files.`,
		Args: takes("KEY", "[N]"),
		RunE: func(cmd *cobra.Command, args []string) error {
			key, err := s.chat(cmd, args[0])
			if err != nil {
				return err
			}
			n := 1
			if len(args) == 2 {
				if n, err = strconv.Atoi(args[1]); err != nil {
					return usage(cmd, fmt.Errorf("the number %q: want one from 1", args[1]))
				}
			}
			return s.change(cmd, func(c control.Caller) error {
				done, err := operate.RewindChat.Call(cmd.Context(), c, operate.Rewinding{Key: key, Exchanges: n})
				if err != nil {
					return err
				}
				if asJSON {
					return printJSON(cmd, done)
				}
				t := &teller{w: cmd.OutOrStdout()}
				t.line("rewound %s: %d exchanges with %d entries", key, done.Exchanges, done.Entries)
				if done.Facts > 0 {
					t.line("%s of them stay: `corebot memory facts list|forget`", count(done.Facts, "fact"))
				}
				return t.err
			})
		},
	}
	jsonFlag(cmd, &asJSON)
	return cmd
}

func newChatsLink(s *shell) *cobra.Command {
	return &cobra.Command{
		Use:   "link FROM TO",
		Short: "Have the chat TO go on with the conversation of the chat FROM",
		Long: `Have the chat TO go on with the conversation of the chat FROM: what is in play there is copied, each
entry with its sender. TO begins a new conversation with it. Both have the same agent. You stand for
the consent of both; people in chats link by /link, which asks both. Neither chat gets roles, memory
or files of the other. "corebot chats unlink" deletes what was copied.`,
		Args: takes("FROM", "TO"),
		RunE: func(cmd *cobra.Command, args []string) error {
			from, err := s.chat(cmd, args[0])
			if err != nil {
				return err
			}
			to, err := s.chat(cmd, args[1])
			if err != nil {
				return err
			}
			return s.change(cmd, func(c control.Caller) error {
				done, err := operate.LinkChats.Call(cmd.Context(), c, operate.Linking{From: from, To: to})
				if err != nil {
					return err
				}
				_, err = fmt.Fprintf(cmd.OutOrStdout(), "linked: %s goes on in %s, with %d entries of the history\n",
					from, to, done.Entries)
				return err
			})
		},
	}
}

func newChatsUnlink(s *shell) *cobra.Command {
	return &cobra.Command{
		Use:   "unlink KEY",
		Short: "End the links of a chat, and delete what they have copied",
		Args:  takes("KEY"),
		RunE: func(cmd *cobra.Command, args []string) error {
			key, err := s.chat(cmd, args[0])
			if err != nil {
				return err
			}
			return s.change(cmd, func(c control.Caller) error {
				done, err := operate.UnlinkChat.Call(cmd.Context(), c, operate.ChatChange{Key: key})
				if err != nil {
					return err
				}
				t := &teller{w: cmd.OutOrStdout()}
				for _, k := range done.Links {
					t.line("unlinked: %d entries of %s are deleted from %s", k.Entries, k.From, k.To)
				}
				return t.err
			})
		},
	}
}
