-- +goose Up

-- When the message of a draft was sent, in milliseconds; 0: not known. It is stored before the message is sent, with an
-- empty shown, on platforms that can be asked whether they show it.
ALTER TABLE drafts ADD COLUMN began INTEGER NOT NULL DEFAULT 0;

-- +goose Down
ALTER TABLE drafts DROP COLUMN began;
