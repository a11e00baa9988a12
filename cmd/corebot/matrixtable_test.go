package main

import "strings"

// The table of expectations of the policy matrix is written by hand, by tool, and knows nothing of the rules of package
// policy. When the table and the rules differ, one of them is wrong, and somebody must say which.

// cell is one call with what must become of it for each effective role: the outcome and the rule of its audit row.
//
// In args, {chat} is the chat of the turn, {dir} the directory of its files, {otherdir} that of another chat's, and
// {self} who sent the message.
type cell struct {
	tool, args               string
	normal, here, everywhere string
}

// matrix is every tool on every kind of target. A call comes after those that make what it needs.
func matrix() []cell {
	return []cell{
		{"fs.write", `{"path":"{chat}.md","content":"one"}`, "success open", "success open", "success open"},
		{"fs.write", `{"path":"{dir}/own.md","content":"one"}`, "success open", "success open", "success open"},
		{
			"fs.write", `{"path":"{otherdir}/x.md","content":"one"}`, "denied chat-files", "denied chat-files",
			"denied chat-files",
		},
		{
			"fs.write", `{"path":"skills/{chat}.md","content":"one"}`, "denied protected-path", "denied protected-path",
			"success protected-path",
		},
		{
			"fs.write", `{"path":"USER.md","content":"one"}`, "denied protected-path", "denied protected-path",
			"success protected-path",
		},
		{
			"fs.write", `{"path":"../corebot.yaml","content":"one"}`, "denied path-unusable", "denied path-unusable",
			"denied path-unusable",
		},
		{"fs.edit", `{"path":"{chat}.md","old":"one","new":"two"}`, "success open", "success open", "success open"},
		{"fs.edit", `{"path":"{dir}/own.md","old":"one","new":"two"}`, "success open", "success open", "success open"},
		{
			"fs.edit", `{"path":"{otherdir}/x.md","old":"one","new":"two"}`, "denied chat-files", "denied chat-files",
			"denied chat-files",
		},
		{
			"fs.edit", `{"path":"/etc/passwd","old":"one","new":"two"}`, "denied path-unusable", "denied path-unusable",
			"denied path-unusable",
		},
		{
			"fs.write", `{"path":"AGENTS.md","content":"one"}`, "denied protected-path", "denied protected-path",
			"success protected-path",
		},
		{"fs.delete", `{"path":"none.md"}`, "success open", "success open", "success open"},
		{
			"fs.delete", `{"path":"BOOTSTRAP.md"}`, "denied protected-path", "denied protected-path",
			"success protected-path",
		},
		{
			"fs.mkdir", `{"path":"skills/made-{chat}"}`, "denied protected-path", "denied protected-path",
			"success protected-path",
		},
		{
			"fs.move", `{"from":"{otherdir}/x.md","to":"x.md"}`, "denied chat-files", "denied chat-files",
			"denied chat-files",
		},
		{
			"fs.move", `{"from":"none.md","to":"skills/{chat}.md"}`, "denied protected-path", "denied protected-path",
			"error protected-path",
		},
		{"fs.search", `{"pattern":"one","path":"{dir}"}`, "success open", "success open", "success open"},
		{
			"fs.search", `{"pattern":"one","path":"{otherdir}"}`, "denied chat-files", "denied chat-files",
			"denied chat-files",
		},
		{"fs.read", `{"path":"{chat}.md"}`, "success open", "success open", "success open"},
		{"fs.read", `{"path":"{dir}/own.md"}`, "success open", "success open", "success open"},
		{"fs.read", `{"path":"{otherdir}/x.md"}`, "denied chat-files", "denied chat-files", "denied chat-files"},
		{"fs.read", `{"path":"IDENTITY.md"}`, "success open", "success open", "success open"},
		{
			"fs.read", `{"path":"../data/corebot.db"}`, "denied path-unusable", "denied path-unusable",
			"denied path-unusable",
		},
		{"fs.list", `{"path":"."}`, "success open", "success open", "success open"},
		{"fs.list", `{"path":"{otherdir}"}`, "denied chat-files", "denied chat-files", "denied chat-files"},
		{"fs.list", `{"path":"chats"}`, "denied chat-files", "denied chat-files", "denied chat-files"},

		{"skills.list", `{}`, "success open", "success open", "success open"},
		{"skills.read", `{"name":"none"}`, "error open", "error open", "error open"},
		{"skills.enabled", `{}`, "success open", "success open", "success open"},
		{"skills.enable", `{"name":"none"}`, "denied skills-here", "error skills-here", "error skills-here"},
		{"skills.disable", `{"name":"none"}`, "denied skills-here", "error skills-here", "error skills-here"},
		{
			"skills.read", `{"name":"../../data"}`, "denied path-unusable", "denied path-unusable",
			"denied path-unusable",
		},

		{"memory.write", `{"scope":"chat","content":"one"}`, "success open", "success open", "success open"},
		{
			"memory.write", `{"scope":"global","content":"one"}`, "denied memory-global", "denied memory-global",
			"success memory-global",
		},
		{
			"memory.write", `{"scope":"agent","content":"one"}`, "denied memory-global", "denied memory-global",
			"success memory-global",
		},
		{
			"memory.write", `{"scope":"channel","content":"one"}`, "denied memory-channel", "denied memory-channel",
			"success memory-channel",
		},
		{"memory.write", `{"content":"one"}`, "success open", "success open", "success open"},
		{
			"memory.write", `{"scope":"other","content":"one"}`, "denied memory-scope", "denied memory-scope",
			"denied memory-scope",
		},
		{"memory.read", `{"scope":"chat"}`, "success open", "success open", "success open"},
		{"memory.read", `{"scope":"global"}`, "success open", "success open", "success open"},
		{"memory.read", `{"scope":"agent"}`, "success open", "success open", "success open"},
		{"memory.read", `{"scope":"channel"}`, "success open", "success open", "success open"},
		{"memory.read", `{}`, "success open", "success open", "success open"},
		{"memory.read", `{"scope":"other"}`, "denied memory-scope", "denied memory-scope", "denied memory-scope"},
		{"memory.search", `{"query":"one"}`, "success open", "success open", "success open"},
		{
			"memory.search", `{"query":"one","scope":"other"}`, "denied memory-scope", "denied memory-scope",
			"denied memory-scope",
		},
		{"memory.summary", `{"range":"1-3"}`, "success open", "success open", "success open"},
		{"memory.facts", `{}`, "success open", "success open", "success open"},
		{"memory.recall", `{"query":"one"}`, "success open", "success open", "success open"},
		{"memory.forget", `{"facts":[1]}`, "error open", "error open", "error open"},
		{
			"memory.forget", `{"facts":[1],"everyone":true}`, "denied memory-of-others", "error memory-of-others",
			"error memory-of-others",
		},
		{"history.search", `{"query":"one"}`, "success open", "success open", "success open"},

		{
			"tasks.schedule", `{"kind":"daily","spec":"08:30","prompt":"look"}`, "success open", "success open",
			"success open",
		},
		{
			"tasks.schedule", `{"kind":"daily","spec":"08:30","prompt":"look","chatId":"elsewhere"}`,
			"denied tasks-other-chat", "denied tasks-other-chat", "success tasks-other-chat",
		},
		{"tasks.list", `{}`, "success open", "success open", "success open"},
		{"tasks.update", `{"id":999999,"action":"pause"}`, "error open", "error open", "error open"},

		{"wait.until", `{"duration":"2s"}`, "success open", "success open", "success open"},
		{"wait.until", `{"duration":"25h"}`, "error open", "error open", "error open"},
		{"agent.run", `{"prompt":"one","background":true}`, "success open", "success open", "success open"},
		{"agent.run", `{"prompt":" "}`, "error open", "error open", "error open"},
		{"wait.open", `{"for":"one"}`, "success open", "success open", "success open"},
		{"wait.word", `{"id":999999}`, "error open", "error open", "error open"},

		{
			"message.send", `{"channel":"webhook","chatId":"{chat}","content":"one"}`, "success open", "success open",
			"success open",
		},
		{
			"message.send", `{"channel":"webhook","chatId":"elsewhere","content":"one"}`, "denied message-other-chat",
			"denied message-other-chat", "success message-other-chat",
		},
		{
			"message.send", `{"channel":"cli","chatId":"elsewhere","content":"one"}`, "denied message-other-chat",
			"denied message-other-chat", "error message-other-chat",
		},

		{"message.upload", `{"path":"{dir}/own.md"}`, "success open", "success open", "success open"},
		{"message.upload", `{"path":"none.md"}`, "error open", "error open", "error open"},
		{
			"message.upload", `{"path":"{otherdir}/x.md"}`, "denied chat-files", "denied chat-files",
			"denied chat-files",
		},
		{
			"message.upload", `{"path":"../data/corebot.db"}`, "denied path-unusable", "denied path-unusable",
			"denied path-unusable",
		},

		{"chat.register", `{}`, "success open", "success open", "success open"},
		{
			"chat.register", `{"chatId":"elsewhere"}`, "denied register-other-chat", "denied register-other-chat",
			"success register-other-chat",
		},
		{"chat.register", `{"role":"admin"}`, "denied admin-by-key", "denied admin-by-key", "denied admin-by-key"},
		{
			"chat.register", `{"role":"admin","bootstrapKey":"not-the-key-of-this"}`, "denied bootstrap-off",
			"denied bootstrap-off", "denied bootstrap-off",
		},
		{
			"chat.set_role", `{"senderId":"eve","chatId":"{chat}","role":"normal"}`, "denied set-role",
			"success set-role",
			"success set-role",
		},
		{
			"chat.set_role", `{"senderId":"eve","chatId":"elsewhere","role":"normal"}`, "denied set-role-there",
			"denied set-role-there", "success set-role-there",
		},
		{
			"chat.set_role", `{"senderId":"eve","role":"normal"}`, "denied set-role-there", "denied set-role-there",
			"success set-role-there",
		},
		{
			"chat.set_role", `{"senderId":"{self}","role":"admin"}`, "denied own-role", "denied own-role",
			"denied own-role",
		},
		{
			"chat.set_role", `{"senderId":"{self}","chatId":"{chat}","role":"admin"}`, "denied own-role",
			"denied own-role", "denied own-role",
		},

		{"bus.dead_letter.list", `{}`, "denied dead-letters", "denied dead-letters", "success dead-letters"},
		{"bus.dead_letter.replay", `{"id":999999}`, "denied dead-letters", "denied dead-letters", "error dead-letters"},
		{"mcp.reload", `{}`, "denied mcp-reload", "denied mcp-reload", "success mcp-reload"},
		{"shell.exec", `{"argv":["echo","one"]}`, "denied shell", "success shell", "success shell"},
		{
			"shell.start", `{"argv":["echo","one"]}`, "denied shell-background", "denied shell-background",
			"denied shell-background",
		},
		{
			"shell.read", `{}`, "denied shell-background", "denied shell-background",
			"denied shell-background",
		},
		{
			"shell.stop", `{"id":"p-x"}`, "denied shell-background", "denied shell-background",
			"denied shell-background",
		},
		{"web.fetch", `{"url":"http://127.0.0.1:1/"}`, "error open", "error open", "error open"},
		{"web.search", `{"query":"one"}`, "error open", "error open", "error open"},

		{"mcp__test__say", `{}`, "denied mcp-tools", "denied mcp-tools", "success mcp-tools"},
		{"mcp__files__read", `{}`, "error ", "error ", "error "},
		{"fs_chmod", `{"path":"{chat}.md"}`, "error ", "error ", "error "},
	}
}

// want is what must become of the call in a scene.
func (c cell) want(s scene, shell bool) string {
	switch {
	case strings.HasPrefix(c.tool, "shell.") && !shell:
		return "denied shell-disabled"
	case s.shared && strings.Contains(c.args, "bootstrapKey"):
		return "denied bootstrap-alone"
	}
	return map[effective]string{normal: c.normal, here: c.here, everywhere: c.everywhere}[s.as]
}

// offers are the tools that the model of a turn is offered.
func offers(as effective, shell bool) []string {
	all := []string{
		"agent.run", "chat.register", "fs.delete", "fs.edit", "fs.list", "fs.mkdir", "fs.move", "fs.read", "fs.search",
		"fs.write",
		"history.search", "memory.facts", "memory.forget", "memory.read", "memory.recall",
		"memory.search", "memory.summary", "memory.write",
		"message.send", "message.upload", "skills.enabled", "skills.list", "skills.read",
		"tasks.list", "tasks.schedule", "tasks.update",
		"wait.open", "wait.until", "wait.word", "web.fetch", "web.search",
	}
	if as != normal {
		all = append(all, "chat.set_role", "skills.disable", "skills.enable")
	}
	if as == everywhere {
		all = append(all, "bus.dead_letter.list", "bus.dead_letter.replay", "mcp.reload", "mcp__test__say")
	}
	if as != normal && shell {
		all = append(all, "shell.exec")
	}
	return all
}
