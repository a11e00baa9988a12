-- +goose Up

-- Whose words a summary is made of. Of older rows nobody knows, so they count as untrusted, as they did.
ALTER TABLE summaries ADD COLUMN sender  TEXT    NOT NULL DEFAULT ''; -- the only one, unless others is set
ALTER TABLE summaries ADD COLUMN others  INTEGER NOT NULL DEFAULT 1;
ALTER TABLE summaries ADD COLUMN outside INTEGER NOT NULL DEFAULT 1;

-- +goose Down
ALTER TABLE summaries DROP COLUMN outside;
ALTER TABLE summaries DROP COLUMN others;
ALTER TABLE summaries DROP COLUMN sender;
