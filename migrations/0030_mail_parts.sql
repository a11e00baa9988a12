-- +goose Up

-- A reply may have images, audio and files beside its text. parts is a JSON list of all of it, as in history; it is empty
-- for a text alone, as of all older rows. notice says in JSON what a notice is about and what its reader can do: see
-- corebot.Notice. It is empty for a reply, and for all older rows.
ALTER TABLE mailbox ADD COLUMN parts  TEXT NOT NULL DEFAULT '';
ALTER TABLE mailbox ADD COLUMN notice TEXT NOT NULL DEFAULT '';

-- +goose Down
ALTER TABLE mailbox DROP COLUMN notice;
ALTER TABLE mailbox DROP COLUMN parts;
