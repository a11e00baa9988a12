-- +goose Up
-- What a deleted chat had said leaves the audit trail, and the trail still verifies. The hash of an event is over the
-- sum of its arguments, and no longer over the arguments. The sum is SHA-256 over a random salt and the arguments: with
-- the salt deleted, nobody can try out which arguments an event had.
ALTER TABLE audit_events ADD COLUMN args_salt BLOB NOT NULL DEFAULT x''; -- x'': an older event, or deleted arguments
ALTER TABLE audit_events ADD COLUMN args_sum BLOB NOT NULL DEFAULT x''; -- x'': an older event, hashed over the arguments
-- Zeros that take the place of deleted text: its rows use the free pages of the file, and are deleted at once.
CREATE TABLE scrub (
  id   INTEGER PRIMARY KEY,
  zero BLOB    NOT NULL
) STRICT;

-- +goose Down
DROP TABLE scrub;
ALTER TABLE audit_events DROP COLUMN args_sum;
ALTER TABLE audit_events DROP COLUMN args_salt;
