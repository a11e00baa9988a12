-- +goose Up

-- How many places of the lane belong to lives that were swept. When they are all of its places, no life is left of it: an index of lives by
-- lane would tell that too, at the cost of every publish.
ALTER TABLE lanes ADD COLUMN swept INTEGER NOT NULL DEFAULT 0;
-- Control messages have no place in a lane. They are few.
CREATE INDEX message_life_control ON message_life (lane_id) WHERE kind = 'control';

-- +goose Down
DROP INDEX message_life_control;
ALTER TABLE lanes DROP COLUMN swept;
