-- +goose Up

-- What texts mean, as vectors of an embedding model. They are made behind the commits that write the texts, in the
-- order of the texts' numbers, up to the numbers of this row. Vectors of two models cannot be compared: a search
-- reads those of the present model's generations only.
CREATE TABLE vector_state (
  id         INTEGER PRIMARY KEY CHECK (id = 1),
  model      TEXT    NOT NULL,
  dimensions INTEGER NOT NULL, -- of its vectors; 0: none has come yet
  generation INTEGER NOT NULL, -- counts how often all texts were to be embedded
  since      INTEGER NOT NULL, -- the first generation of the model
  history    INTEGER NOT NULL, -- entries of the history up to this one have been embedded
  facts      INTEGER NOT NULL  -- facts up to this one have been embedded
) STRICT;
INSERT INTO vector_state (id, model, dimensions, generation, since, history, facts) VALUES (1, '', 0, 0, 0, 0, 0);

-- The number of a vector is kind << 61 | scope << 38 | item. So the vectors of one scope lie side by side, and a search
-- reads those of its own scope and no other. A table without rowids would take a page of its own for each vector of
-- more than 1,000 bytes. Kinds: 1 is an entry of the history, with its chat as scope; 2 is a fact, with its owner; 3 is
-- a summary, with its chat and its session.
CREATE TABLE vectors (
  id         INTEGER PRIMARY KEY,
  generation INTEGER NOT NULL,
  vector     BLOB    NOT NULL -- one byte a dimension behind their length; empty: the endpoint refuses the text
) STRICT;

-- Whoever deletes or changes a text takes its vector away. The number of the newest entry may be used again.
-- +goose StatementBegin
CREATE TRIGGER history_unlike AFTER DELETE ON history BEGIN
  DELETE FROM vectors WHERE id = (1 << 61) | (old.chat_id << 38) | old.id;
  UPDATE vector_state SET history = (SELECT COALESCE(MAX(id), 0) FROM history)
    WHERE history > (SELECT COALESCE(MAX(id), 0) FROM history);
END;
-- +goose StatementEnd
-- +goose StatementBegin
CREATE TRIGGER fact_unlike AFTER DELETE ON facts BEGIN
  DELETE FROM vectors WHERE id = (2 << 61) | (old.owner_id << 38) | old.id;
END;
-- +goose StatementEnd
-- +goose StatementBegin
CREATE TRIGGER fact_unlike_superseded AFTER UPDATE OF superseded_by ON facts WHEN new.superseded_by > 0 BEGIN
  DELETE FROM vectors WHERE id = (2 << 61) | (old.owner_id << 38) | old.id;
END;
-- +goose StatementEnd
-- +goose StatementBegin
CREATE TRIGGER summary_unlike AFTER DELETE ON summaries BEGIN
  DELETE FROM vectors WHERE id = (3 << 61) | (old.chat_id << 38) | old.session;
END;
-- +goose StatementEnd
-- +goose StatementBegin
CREATE TRIGGER summary_unlike_changed AFTER UPDATE OF text ON summaries BEGIN
  DELETE FROM vectors WHERE id = (3 << 61) | (old.chat_id << 38) | old.session;
END;
-- +goose StatementEnd

-- +goose Down
DROP TRIGGER summary_unlike_changed;
DROP TRIGGER summary_unlike;
DROP TRIGGER fact_unlike_superseded;
DROP TRIGGER fact_unlike;
DROP TRIGGER history_unlike;
DROP TABLE vectors;
DROP TABLE vector_state;
