package app

import (
	"github.com/corebot/corebot/storage"
	"github.com/corebot/corebot/tools"
	"github.com/corebot/corebot/tools/builtin"
)

// chatTools are the tools that act on what is said in chats.
func (a *App) chatTools() []tools.Tool {
	all := []tools.Tool{
		builtin.HistorySearch(storage.NewHistory(a.Store)),
		builtin.MessageSend(a.destinations(), a.config.Bus.MaxMessageBytes),
	}
	if peers := a.peers(); len(peers) > 1 { // else there is nobody to ask
		all = append(all, builtin.AgentList(peers), builtin.AgentSend(peers, a.config.Bus.MaxMessageBytes))
	}
	return all
}

// peers are the agents that can ask one another: all of the settings. A question to one that another process runs waits
// for it.
func (a *App) peers() (all []builtin.Peer) {
	for _, entry := range a.config.AgentList() {
		all = append(all, builtin.Peer{ID: entry.ID, Name: entry.Name})
	}
	return all
}
