-- +goose Up

-- Each turn asks for the replies of its chat that were given up: of one lane, however many others have.
CREATE INDEX message_life_dead_of_lane ON message_life (lane_id, ended_at) WHERE "end" = 'dead';

-- +goose Down
DROP INDEX message_life_dead_of_lane;
