-- +goose Up

-- When a message is to be answered that came before its time; 0: at once.
ALTER TABLE message_life ADD COLUMN deliver_at INTEGER NOT NULL DEFAULT 0;

-- +goose Down
ALTER TABLE message_life DROP COLUMN deliver_at;
