-- +goose Up

-- A detached request: its answer has come without the calls. life_id is then the message whose turn will make them.
ALTER TABLE approvals ADD COLUMN asked_life INTEGER NOT NULL DEFAULT 0; -- whose turn has asked; 0: it is not detached
ALTER TABLE approvals ADD COLUMN asked_run INTEGER NOT NULL DEFAULT 0;
ALTER TABLE approvals ADD COLUMN asked_position INTEGER NOT NULL DEFAULT 0; -- of the call in that turn's journal
CREATE INDEX approvals_asked ON approvals (asked_life, asked_run, asked_position) WHERE asked_life <> 0;

-- The message of the chat's detached request; 0: it has none.
ALTER TABLE lanes ADD COLUMN detached INTEGER NOT NULL DEFAULT 0;

-- +goose Down
ALTER TABLE lanes DROP COLUMN detached;
DROP INDEX approvals_asked;
ALTER TABLE approvals DROP COLUMN asked_position;
ALTER TABLE approvals DROP COLUMN asked_run;
ALTER TABLE approvals DROP COLUMN asked_life;
