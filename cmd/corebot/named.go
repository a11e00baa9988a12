package main

import (
	"errors"
	"fmt"
	"io/fs"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/internal/app"
	"github.com/corebot/corebot/internal/operate"
)

// chat reads the chat that an argument names: by its key, or by a short form of a known one.
func (s *shell) chat(cmd *cobra.Command, name string) (corebot.Key, error) {
	if k, err := corebot.ParseKey(name); err == nil {
		return k, nil
	}
	found, err := look(s, cmd, operate.FindChat, operate.ChatName{Name: name})
	if errors.Is(err, fs.ErrNotExist) { // there is no database yet, and so no chat
		found.Key, err = corebot.Named(name, nil)
	}
	if errors.Is(err, corebot.ErrInvalid) {
		err = usage(cmd, err)
	}
	return found.Key, err
}

const chatFlagHelp = "of this chat only: its id in the channel, of any account; or its key, or a short form such as " +
	"webhook:c1"

// chatFilter reads the chat of a filter: a name that is not just an id, such as webhook:c1, is one chat exactly. A chat
// that is not known has the agent that the settings mean, or main. Such a chat can be forgotten before its events are,
// or have none but dead letters.
func (s *shell) chatFilter(cmd *cobra.Command, channel, name string) (k corebot.Key, id string, err error) {
	if !strings.Contains(name, ":") {
		return k, name, nil
	}
	if k, err = s.chat(cmd, name); errors.Is(err, corebot.ErrNotFound) {
		var agents corebot.Routing
		if c, err := s.settings(); err == nil {
			agents = c.Routing()
		}
		if k, err = app.UnknownChat(name, agents); err != nil {
			return corebot.Key{}, name, nil // an id with a colon in it
		}
	}
	switch {
	case err == nil && channel != "" && channel != k.Channel:
		return k, "", usage(cmd, fmt.Errorf("--chat %s is not on --channel %s", name, channel))
	}
	return k, "", err
}

// named reads the dead letters that arguments name: by the number that `dlq list` shows, or by the id of their message.
func (s *shell) named(cmd *cobra.Command, args []string) ([]int64, error) {
	ids := make([]int64, len(args))
	for i, arg := range args {
		var err error
		if ids[i], err = strconv.ParseInt(arg, 10, 64); err == nil && ids[i] > 0 {
			continue
		}
		if ids[i], err = s.deadMessage(cmd, arg); err != nil {
			return nil, err
		}
	}
	return ids, nil
}

// deadMessage finds the one dead letter of a message id.
func (s *shell) deadMessage(cmd *cobra.Command, id string) (int64, error) {
	found, err := look(s, cmd, operate.FindDeadLetters, operate.ByMessage{MessageID: id})
	if err != nil {
		return 0, err
	}
	switch len(found.IDs) {
	case 1:
		return found.IDs[0], nil
	case 0:
		return 0, corebot.WithHint(fmt.Errorf("dead letter %q: %w", id, corebot.ErrNotFound),
			"`corebot dlq list` shows the numbers of dead letters and the ids of their messages")
	}
	return 0, usage(cmd, fmt.Errorf("%q is the id of several dead letters: name them by the numbers that `corebot "+
		"dlq list` shows", id))
}
