-- The number of the lock that the holder's process has while it lives; NULL of one that has none.
ALTER TABLE lanes ADD COLUMN life BIGINT;
