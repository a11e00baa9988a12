-- +goose Up

-- Whose turns made the folder of a chat in the workspace grow. The rows of a chat together are what its folder held
-- when a tool last changed it. What nobody is charged with has an empty channel: files from before, of admins, of the
-- terminal, and those that were put there by hand.
CREATE TABLE file_charges (
  chat    TEXT    NOT NULL,
  channel TEXT    NOT NULL,
  account TEXT    NOT NULL,
  sender  TEXT    NOT NULL, -- '' is a sender that the channel could not name: the chat is charged
  bytes   INTEGER NOT NULL,
  entries INTEGER NOT NULL,
  PRIMARY KEY (chat, channel, account, sender)
) STRICT, WITHOUT ROWID;
CREATE INDEX file_charges_sender ON file_charges (channel, account, sender, chat, bytes, entries);

-- +goose Down
DROP TABLE file_charges;
