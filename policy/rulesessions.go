package policy

// RuleSessionOfOthers is the rule by which a new session is denied. It is stored in the audit; it never changes.
const RuleSessionOfOthers = "session-of-others"

// ownSessionOnly are the rules for chat commands that end, rewind or copy a session. Only a sender who alone has spoken
// in the session, or an admin, may give them. Anybody may end an empty session.
func ownSessionOnly() []rule {
	t := []rule{{
		name: "link-person", tool: "/link", when: notInteractive, who: nobody, on: "a command that no person gave",
		reason: "only a person can link chats: in the terminal, in a chat, or with `corebot chats link`",
	}}
	for _, command := range []string{"/new", "/reset", "/rewind", "/fork", "/link"} {
		t = append(t,
			rule{
				name: RuleSessionOfOthers, tool: command, when: othersMessage, targeted: true, who: admins,
				on:     "a session in which others have spoken",
				reason: "others have spoken in this session: only an admin of this chat may end, rewind or copy it",
			},
			rule{name: "own-session", tool: command, who: anyone})
	}
	return t
}
