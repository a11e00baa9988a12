-- +goose Up

-- Which database this is, a UUIDv7. The home remembers it in a file beside the database. The program gives it when it first opens the file: '' until then.
ALTER TABLE store ADD COLUMN identity TEXT NOT NULL DEFAULT '';

-- A chat is not forgotten while somebody has a role in it.
CREATE INDEX grants_scope ON grants (scope) WHERE scope <> '';

-- +goose Down
DROP INDEX grants_scope;
ALTER TABLE store DROP COLUMN identity;
