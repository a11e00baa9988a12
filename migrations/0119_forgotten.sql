-- +goose Up

-- The key of the sums in the table forgotten: random bytes that the first forgotten fact makes. x'': none yet.
ALTER TABLE store ADD COLUMN forget_key BLOB NOT NULL DEFAULT x'';

-- A fact that somebody forgot, without a word of it.
CREATE TABLE forgotten (
  chat_id    INTEGER NOT NULL REFERENCES chats (id), -- where it was said
  sender     TEXT    NOT NULL, -- who said it
  says       BLOB    NOT NULL, -- HMAC-SHA256 of its scope, its sender and its folded words, by store.forget_key
  message_id TEXT    NOT NULL, -- in which it was said; empty: none is known
  at         INTEGER NOT NULL, -- when it was forgotten
  linked     INTEGER NOT NULL DEFAULT 0, -- the link that brought the record here; 0: none
  PRIMARY KEY (chat_id, sender, says, message_id)
) STRICT, WITHOUT ROWID;
CREATE INDEX forgotten_messages ON forgotten (chat_id, sender, message_id, at);
CREATE INDEX forgotten_linked ON forgotten (linked) WHERE linked <> 0;

-- +goose Down
DROP TABLE forgotten;
ALTER TABLE store DROP COLUMN forget_key;
