-- +goose Up

-- The runs of tasks whose messages wait or run: the scheduler publishes no more of them than there is room for at once.
CREATE INDEX task_runs_open ON task_runs (life_id) WHERE ended_at = 0 AND life_id > 0;

-- +goose Down
DROP INDEX task_runs_open;
