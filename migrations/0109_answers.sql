-- +goose Up
-- The answers to one message of a chat. Without the index, each look for them reads the whole mailbox of the chat.
CREATE INDEX mailbox_answers ON mailbox (in_reply_to, chat_id);

-- +goose Down
DROP INDEX mailbox_answers;
