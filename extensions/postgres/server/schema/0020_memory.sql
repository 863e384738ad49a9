-- The index of the notes. An index has builds: the one that answers, and at times a hidden one that is being
-- filled; to publish is to write another number into one row. Vectors belong to the agent, not to a build.

CREATE EXTENSION IF NOT EXISTS vector;

-- Who rebuilds, and who is alone with the index for a last look, holds a lease and renews it.
CREATE TABLE memory_indexes (
    agent text NOT NULL PRIMARY KEY,
    live integer NOT NULL DEFAULT 1,
    hidden integer,
    hidden_for text,
    building_by text,
    building_until timestamptz,
    alone_by text,
    alone_until timestamptz,
    next_vector bigint NOT NULL DEFAULT 1
);

-- Ids of chunks begin far above those of the build before: none is used twice. `tokens` is how long all chunks
-- are together, in words; `changed` rises with every write.
CREATE TABLE memory_builds (
    agent text NOT NULL,
    build integer NOT NULL,
    next_chunk bigint NOT NULL,
    chunks bigint NOT NULL DEFAULT 0,
    tokens bigint NOT NULL DEFAULT 0,
    changed bigint NOT NULL DEFAULT 0,
    PRIMARY KEY (agent, build)
);

CREATE TABLE memory_meta (
    agent text NOT NULL,
    build integer NOT NULL,
    key text NOT NULL,
    value text NOT NULL,
    PRIMARY KEY (agent, build, key)
);

CREATE TABLE memory_files (
    agent text NOT NULL,
    build integer NOT NULL,
    source text NOT NULL,
    path text NOT NULL,
    content_hash text NOT NULL,
    size bigint NOT NULL,
    mtime_ns bigint NOT NULL,
    inode bigint NOT NULL,
    read_at_ns bigint NOT NULL,
    PRIMARY KEY (agent, build, source, path)
);

CREATE TABLE memory_chunks (
    agent text NOT NULL,
    build integer NOT NULL,
    id bigint NOT NULL,
    source text NOT NULL,
    path text NOT NULL,
    ordinal integer NOT NULL,
    start_line integer NOT NULL,
    end_line integer NOT NULL,
    heading_path text[] NOT NULL,
    day date,
    content_hash text NOT NULL,
    text text NOT NULL,
    PRIMARY KEY (agent, build, id)
);
CREATE INDEX memory_chunks_file ON memory_chunks (agent, build, source, path, ordinal);
CREATE INDEX memory_chunks_day ON memory_chunks (agent, build, day) WHERE day IS NOT NULL;

-- Apart from the texts and never out of line: a search weighs hundreds of these rows, and reads few texts.
-- Each word stands behind a mark of its agent, so that no list in the index is longer than that agent's notes.
CREATE TABLE memory_words (
    agent text NOT NULL,
    build integer NOT NULL,
    chunk_id bigint NOT NULL,
    tokens integer NOT NULL,
    words tsvector NOT NULL,
    PRIMARY KEY (agent, build, chunk_id)
) WITH (toast_tuple_target = 8160);
CREATE INDEX memory_words_words ON memory_words USING gin (words);

CREATE TABLE memory_embedders (
    agent text NOT NULL,
    name text NOT NULL,
    id bigint NOT NULL,
    PRIMARY KEY (agent, name)
);

-- Also the embedding cache: a row that no chunk points to is kept in case its text comes back. `embedding` has
-- length one; NULL says that the provider refuses this text. `code` holds the signs of its numbers, one bit
-- each: what the coarse pass compares. `sentences` holds the vectors of the text's
-- sentences one behind the other, a signed byte for each number; NULL says that they are not made.
CREATE TABLE memory_vectors (
    agent text NOT NULL,
    id bigint NOT NULL,
    embedder_id bigint NOT NULL,
    text_hash bytea NOT NULL,
    used_at bigint NOT NULL,
    embedding vector,
    code bit varying,
    sentences bytea,
    PRIMARY KEY (agent, id),
    UNIQUE (agent, embedder_id, text_hash)
);
CREATE INDEX memory_vectors_without_sentences ON memory_vectors (agent, id)
    WHERE sentences IS NULL AND embedding IS NOT NULL;

-- `code` is that of the vector, again, so that the coarse pass reads no vectors.
CREATE TABLE memory_chunk_vectors (
    agent text NOT NULL,
    build integer NOT NULL,
    chunk_id bigint NOT NULL,
    piece integer NOT NULL,
    vector_id bigint NOT NULL,
    code bit varying,
    PRIMARY KEY (agent, build, chunk_id, piece)
);
CREATE INDEX memory_chunk_vectors_vector ON memory_chunk_vectors (agent, vector_id);

CREATE TABLE memory_failures (
    agent text NOT NULL,
    build integer NOT NULL,
    source text NOT NULL,
    path text NOT NULL,
    problem text NOT NULL,
    attempts integer NOT NULL,
    retry_at_seconds double precision NOT NULL,
    PRIMARY KEY (agent, build, source, path)
);
