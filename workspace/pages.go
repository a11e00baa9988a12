package workspace

// Paths of the files that stand in prompts. The operator writes them.
const (
	Identity  = "IDENTITY.md"      // who the agent is
	Soul      = "SOUL.md"          // its manner
	Agents    = "AGENTS.md"        // its working rules
	User      = "USER.md"          // whom it serves
	Tools     = "TOOLS.md"         // what is particular to the tools of this place
	Memory    = "memory/MEMORY.md" // what it remembers in every conversation
	Bootstrap = "BOOTSTRAP.md"     // what it does in its first conversation; deleted behind that
)

// Heartbeat lists what the agent looks after when nobody asks. It stands in the prompts of heartbeats alone.
const Heartbeat = "HEARTBEAT.md"

// SkillsDir has the skills, which stand in prompts as well.
const SkillsDir = "skills"

// Help is the skill about Corebot itself. Only a new workspace gets it, so that it stays away once it is removed.
const Help = SkillsDir + "/corebot-help/SKILL.md"

// memoryDir has Memory.
const memoryDir = "memory"

// Pages are the files that stand in prompts, whatever the conversation. This list is the only one: limits, owners, the
// doctor, policy and the templates go by it.
func Pages() []string { return []string{Identity, Soul, Agents, User, Tools, Memory, Bootstrap} }

// Protected are the files and directories that are instructions to the agent. Only admins change them, so what they say
// is the operator's word.
func Protected() []string {
	return []string{Identity, Soul, Agents, User, Tools, Heartbeat, Bootstrap, memoryDir, SkillsDir}
}
