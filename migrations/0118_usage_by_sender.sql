-- +goose Up

-- Two senders of one chat can have one id: a user of the terminal and one of a network. Each has a row of his own.
CREATE TABLE usage_days_by_sender (
  day         TEXT    NOT NULL,
  agent       TEXT    NOT NULL,
  key         TEXT    NOT NULL,
  channel     TEXT    NOT NULL,
  account     TEXT    NOT NULL,
  sender      TEXT    NOT NULL,
  model       TEXT    NOT NULL,
  turns       INTEGER NOT NULL,
  input       INTEGER NOT NULL,
  output      INTEGER NOT NULL,
  cache_read  INTEGER NOT NULL,
  cache_write INTEGER NOT NULL,
  cost        INTEGER NOT NULL, -- millionths of the currency
  unpriced    INTEGER NOT NULL, -- tokens whose price was not known
  estimated   INTEGER NOT NULL, -- tokens that no provider counted
  PRIMARY KEY (day, key, channel, account, sender, model)
) STRICT, WITHOUT ROWID;
INSERT INTO usage_days_by_sender (day, agent, key, channel, account, sender, model,
    turns, input, output, cache_read, cache_write, cost, unpriced, estimated)
  SELECT day, agent, key, channel, account, sender, model,
    turns, input, output, cache_read, cache_write, cost, unpriced, estimated FROM usage_days;
DROP TABLE usage_days;
ALTER TABLE usage_days_by_sender RENAME TO usage_days;
CREATE INDEX usage_days_principal ON usage_days (day, channel, account, sender);

-- +goose Down
CREATE TABLE usage_days_by_id (
  day         TEXT    NOT NULL,
  agent       TEXT    NOT NULL,
  key         TEXT    NOT NULL,
  channel     TEXT    NOT NULL,
  account     TEXT    NOT NULL,
  sender      TEXT    NOT NULL,
  model       TEXT    NOT NULL,
  turns       INTEGER NOT NULL,
  input       INTEGER NOT NULL,
  output      INTEGER NOT NULL,
  cache_read  INTEGER NOT NULL,
  cache_write INTEGER NOT NULL,
  cost        INTEGER NOT NULL,
  unpriced    INTEGER NOT NULL,
  estimated   INTEGER NOT NULL,
  PRIMARY KEY (day, key, sender, model)
) STRICT, WITHOUT ROWID;
INSERT INTO usage_days_by_id (day, agent, key, channel, account, sender, model,
    turns, input, output, cache_read, cache_write, cost, unpriced, estimated)
  SELECT day, agent, key, MIN(channel), MIN(account), sender, model, SUM(turns), SUM(input), SUM(output),
    SUM(cache_read), SUM(cache_write), SUM(cost), SUM(unpriced), SUM(estimated)
    FROM usage_days GROUP BY day, key, sender, model;
DROP TABLE usage_days;
ALTER TABLE usage_days_by_id RENAME TO usage_days;
CREATE INDEX usage_days_principal ON usage_days (day, channel, account, sender);
