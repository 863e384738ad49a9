-- The process that serves the ledger. It does so while it is alive; NULL of nobody, and of a program before this
-- one, which has an advisory lock.
ALTER TABLE ledger_holders ADD COLUMN process BIGINT;
