package storage

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/corebot/corebot"
)

// stepRow is a step as it is stored: one request and one result, whatever its kind.
type stepRow struct {
	corebot.Step
	request, result string
}

func encodeStep(s corebot.Step) (row stepRow, err error) {
	row.Step = s
	var request, result any
	switch s.Kind {
	case corebot.StepModel, corebot.StepSummary:
		result = s.Answer
	case corebot.StepTool:
		request, result = s.Call, s.Result
	case corebot.StepMerge:
		request = s.Merged
	case corebot.StepPart:
		request = s.Sent
	default:
		return row, fmt.Errorf("record a step: no such kind: %q", s.Kind)
	}
	if row.request, err = encode(request); err != nil {
		return row, err
	}
	row.result, err = encode(result)
	return row, err
}

// encode stores a value as JSON; a nil pointer is an empty string.
func encode[T any](v T) (string, error) {
	b, err := json.Marshal(v)
	if err != nil {
		return "", fmt.Errorf("encode %T: %w", v, err)
	}
	if string(b) == "null" {
		return "", nil
	}
	return string(b), nil
}

var (
	recordStep = &query{`INSERT INTO execution_steps (life_id, run, position, kind, state, request, result, started_at, ended_at)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)
		ON CONFLICT (life_id, run, position) DO UPDATE SET state = excluded.state, result = excluded.result, ended_at = excluded.ended_at
		WHERE kind = excluded.kind AND request = excluded.request`}
	selectSteps = &query{`SELECT position, kind, state, request, result, started_at, ended_at FROM execution_steps
		WHERE life_id = ? AND run = ? ORDER BY position`}
)

// recordStepTx writes a step, or advances the one that is in its place. Another step there is [corebot.ErrDiverged]: the turn that resumed the
// journal does not do what the journal says, and one of the two would be lost.
func recordStepTx(t *tx, life int64, run int, s stepRow) error {
	n, err := t.exec(recordStep, life, run, s.Position, string(s.Kind), string(s.State), s.request, s.result, s.StartedAt, s.EndedAt)
	if err == nil && n == 0 {
		err = fmt.Errorf("record step %d (%s): %w", s.Position, s.Kind, corebot.ErrDiverged)
	}
	return err
}

func stepsTx(t *tx, life int64, run int) ([]corebot.Step, error) {
	var steps []corebot.Step
	err := t.each(selectSteps, func(s scanner) error {
		step, err := scanStep(s)
		steps = append(steps, step)
		return err
	}, life, run)
	return steps, err
}

func scanStep(s scanner) (step corebot.Step, err error) {
	var kind, state, request, result string
	if err := s.Scan(&step.Position, &kind, &state, &request, &result, moment{&step.StartedAt}, moment{&step.EndedAt}); err != nil {
		return step, err
	}
	step.Kind, step.State = corebot.StepKind(kind), corebot.StepState(state)
	switch step.Kind {
	case corebot.StepModel, corebot.StepSummary:
		err = decode(result, &step.Answer)
	case corebot.StepTool:
		if err = decode(request, &step.Call); err == nil {
			err = decode(result, &step.Result)
		}
	case corebot.StepMerge:
		err = decode(request, &step.Merged)
	case corebot.StepPart:
		err = decode(request, &step.Sent)
	}
	return step, err
}

// errStepDamaged says that a journal cannot be read: its message can only be a dead letter, and must not hold up any other.
var errStepDamaged = errors.New("a stored step is damaged")

// decode reads what encode wrote; an empty string leaves the pointer nil.
func decode[T any](s string, to **T) error {
	if s == "" {
		return nil
	}
	*to = new(T)
	if err := json.Unmarshal([]byte(s), *to); err != nil {
		return fmt.Errorf("%w: %v", errStepDamaged, err)
	}
	return nil
}
