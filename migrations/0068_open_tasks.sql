-- +goose Up

-- A chat and a person can have many tasks that are done. Only the others count for their limits.
DROP INDEX tasks_creator;
CREATE INDEX tasks_creator ON tasks (creator, state) WHERE state <> 'done';
CREATE INDEX tasks_chat_open ON tasks (chat, channel, account, agent, thread, state) WHERE state <> 'done';

-- +goose Down
DROP INDEX tasks_chat_open;
DROP INDEX tasks_creator;
CREATE INDEX tasks_creator ON tasks (creator);
