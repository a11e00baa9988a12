-- +goose Up

-- What becomes of a prompt that finds its chat busy; '' is the configured default. The chat keeps it; its inbound lane has a copy, which
-- publishing reads with the lane.
ALTER TABLE chats ADD COLUMN queue_mode TEXT NOT NULL DEFAULT '';
ALTER TABLE lanes ADD COLUMN mode TEXT NOT NULL DEFAULT '';
-- Mode collect: no turn begins before this time, and when the first of the messages came that wait for it.
ALTER TABLE lanes ADD COLUMN quiet_at INTEGER NOT NULL DEFAULT 0;
ALTER TABLE lanes ADD COLUMN quiet_from INTEGER NOT NULL DEFAULT 0;
-- The stop of stop_seq came with a newer prompt, not with a /stop.
ALTER TABLE lanes ADD COLUMN interrupted INTEGER NOT NULL DEFAULT 0;
-- The newest place of a message that the turn of another is to take in.
ALTER TABLE lanes ADD COLUMN merge_seq INTEGER NOT NULL DEFAULT 0;

-- The life whose turn takes this message in, if it comes to that; else the message has a turn of its own. 0: none.
ALTER TABLE message_queue ADD COLUMN merge_into INTEGER NOT NULL DEFAULT 0;
CREATE INDEX message_queue_merges ON message_queue (merge_into, seq) WHERE merge_into <> 0;
-- The life that a merged message was answered with. It may be swept before this one.
ALTER TABLE message_life ADD COLUMN merged_id INTEGER;

-- +goose Down
ALTER TABLE message_life DROP COLUMN merged_id;
DROP INDEX message_queue_merges;
ALTER TABLE message_queue DROP COLUMN merge_into;
ALTER TABLE lanes DROP COLUMN merge_seq;
ALTER TABLE lanes DROP COLUMN interrupted;
ALTER TABLE lanes DROP COLUMN quiet_from;
ALTER TABLE lanes DROP COLUMN quiet_at;
ALTER TABLE lanes DROP COLUMN mode;
ALTER TABLE chats DROP COLUMN queue_mode;
