package cli

import (
	"charm.land/lipgloss/v2"
)

// styles draw the chat. They use the sixteen colors that a terminal's own theme defines and no background, so that
// nothing has to be asked of the terminal and every theme stays readable.
type styles struct {
	question lipgloss.Style // what the user said, and the prompt
	dim      lipgloss.Style // what Corebot itself says
	good     lipgloss.Style
	bad      lipgloss.Style
}

func newStyles(noColor bool) styles {
	plain := lipgloss.NewStyle()
	if noColor {
		return styles{plain, plain, plain, plain}
	}
	return styles{
		question: plain.Bold(true).Foreground(lipgloss.Cyan),
		dim:      plain.Faint(true),
		good:     plain.Foreground(lipgloss.Green),
		bad:      plain.Foreground(lipgloss.Red),
	}
}
