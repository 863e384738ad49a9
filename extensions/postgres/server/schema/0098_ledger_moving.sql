-- The checksum of what `nacre storage migrate` brought in last; empty where nothing ever was.
ALTER TABLE ledger_holders ADD COLUMN copied TEXT NOT NULL DEFAULT '';
