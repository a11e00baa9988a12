package storage

import (
	"cmp"
	"encoding/json"
	"fmt"
	"os"
	"strconv"

	"github.com/corebot/corebot"
)

// byOperator begins the audit event of a change by a command on the machine. Its sender is the user of this
// process: the control socket is open to nobody else but root.
func byOperator() corebot.AuditEvent {
	return corebot.AuditEvent{Entry: corebot.EntryOperator, Principal: corebot.Principal{ID: strconv.Itoa(os.Getuid())}}
}

// maker spells who makes a change.
func maker(by corebot.AuditEvent) string {
	if by.Entry == corebot.EntryOperator {
		return string(corebot.EntryOperator)
	}
	return by.Principal.String()
}

// changeTx notes in the audit what was changed, in the commit of the change. by says who did it and where; what an operator did has the
// conversation that it is about.
func changeTx(t *tx, by corebot.AuditEvent, event string, about corebot.Key, note map[string]any) error {
	args, err := json.Marshal(note)
	if err != nil {
		return fmt.Errorf("encode the audit note of %s: %w", event, err)
	}
	by.Key = cmp.Or(by.Key, about)
	by.Event, by.Outcome, by.Args = event, corebot.OutcomeSuccess, string(args)
	return auditTx(t, []corebot.AuditEvent{by})
}
