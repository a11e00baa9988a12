-- +goose Up

-- Rows of the history get a number of their own, which the index of their terms knows them by: an implicit rowid may change in a VACUUM.
-- The order of the history is still that of its places; the number says only which rows the index has seen.
CREATE TABLE entries (
  id         INTEGER PRIMARY KEY,
  chat_id    INTEGER NOT NULL REFERENCES chats (id),
  session    INTEGER NOT NULL,
  seq        INTEGER NOT NULL,
  ordinal    INTEGER NOT NULL,
  speaker    TEXT    NOT NULL,
  sender     TEXT    NOT NULL DEFAULT '',
  name       TEXT    NOT NULL DEFAULT '',
  text       TEXT    NOT NULL,
  calls      TEXT    NOT NULL DEFAULT '',
  call_id    TEXT    NOT NULL DEFAULT '',
  message_id TEXT    NOT NULL,
  at         INTEGER NOT NULL,
  UNIQUE (chat_id, session, seq, ordinal)
) STRICT;
INSERT INTO entries (chat_id, session, seq, ordinal, speaker, sender, name, text, calls, call_id, message_id, at)
  SELECT chat_id, session, seq, ordinal, speaker, sender, name, text, calls, call_id, message_id, at FROM history ORDER BY rowid;
DROP TABLE history;
ALTER TABLE entries RENAME TO history;

-- The terms of what was said, each behind the number of its chat and a dot: a search in one chat reads nothing of any other. They are cut and
-- folded before they get here, so that the tokenizer has only spaces to find.
CREATE VIRTUAL TABLE history_terms USING fts5(terms, content='', contentless_delete=1, tokenize='ascii');

-- One row. The history is indexed behind the commits that write it, in the order of its numbers, up to this one.
CREATE TABLE history_indexed (
  id      INTEGER PRIMARY KEY CHECK (id = 1),
  through INTEGER NOT NULL
) STRICT;
INSERT INTO history_indexed (id, through) VALUES (1, 0);

-- Whoever takes history away takes its terms too. The number of the newest row may be used again.
-- +goose StatementBegin
CREATE TRIGGER history_forgotten AFTER DELETE ON history BEGIN
  DELETE FROM history_terms WHERE rowid = old.id;
  UPDATE history_indexed SET through = (SELECT COALESCE(MAX(id), 0) FROM history)
    WHERE through > (SELECT COALESCE(MAX(id), 0) FROM history);
END;
-- +goose StatementEnd

-- +goose Down
DROP TRIGGER history_forgotten;
DROP TABLE history_indexed;
DROP TABLE history_terms;
CREATE TABLE entries (
  chat_id    INTEGER NOT NULL REFERENCES chats (id),
  session    INTEGER NOT NULL,
  seq        INTEGER NOT NULL,
  ordinal    INTEGER NOT NULL,
  speaker    TEXT    NOT NULL,
  sender     TEXT    NOT NULL DEFAULT '',
  name       TEXT    NOT NULL DEFAULT '',
  text       TEXT    NOT NULL,
  calls      TEXT    NOT NULL DEFAULT '',
  call_id    TEXT    NOT NULL DEFAULT '',
  message_id TEXT    NOT NULL,
  at         INTEGER NOT NULL,
  PRIMARY KEY (chat_id, session, seq, ordinal)
) STRICT;
INSERT INTO entries SELECT chat_id, session, seq, ordinal, speaker, sender, name, text, calls, call_id, message_id, at FROM history ORDER BY id;
DROP TABLE history;
ALTER TABLE entries RENAME TO history;
