-- Short pieces have taken the place of sentences. The index of what was without them goes with the column.
ALTER TABLE memory_vectors DROP COLUMN sentences;
