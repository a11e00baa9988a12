-- +goose Up
-- The wrong codes of links by one person, in one chat and on one account of a channel. A row goes when its time is over.
CREATE TABLE link_tries (
  who      TEXT    PRIMARY KEY, -- a hash: a deleted chat leaves no name here
  failures INTEGER NOT NULL,
  since    INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- +goose Down
DROP TABLE link_tries;
