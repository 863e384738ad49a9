-- Sessions: which one a key names, what was said, what is due, and whose turn it is.
-- Each primary key begins with the agent, and no statement looks at more than one, so that every table can be
-- partitioned by a hash of it.

-- `line` is JSON, as a line of sessions.json.
CREATE TABLE session_lines (
    agent TEXT NOT NULL,
    key TEXT NOT NULL,
    session_id TEXT NOT NULL,
    line TEXT NOT NULL,
    PRIMARY KEY (agent, key)
);
CREATE INDEX session_lines_session ON session_lines (agent, session_id);

-- One that was deleted has another name, under which nobody looks, and `aside_at`. `owner_key` and `chat_kind`
-- are what its first owner record says. `lines` counts the header; `size_bytes` is all of it as JSON lines.
CREATE TABLE transcripts (
    agent TEXT NOT NULL,
    name TEXT NOT NULL,
    id UUID NOT NULL DEFAULT gen_random_uuid(),
    session_id TEXT NOT NULL,
    owner_key TEXT,
    chat_kind TEXT,
    lines INTEGER NOT NULL,
    size_bytes BIGINT NOT NULL,
    begun_at TIMESTAMPTZ NOT NULL,
    grown_at TIMESTAMPTZ NOT NULL,
    aside_at TIMESTAMPTZ,
    PRIMARY KEY (agent, name)
);

-- Each line byte for byte, its line feed included; number 0 is the header. They are never changed.
CREATE TABLE transcript_lines (
    agent TEXT NOT NULL,
    transcript UUID NOT NULL,
    number INTEGER NOT NULL,
    line BYTEA NOT NULL,
    PRIMARY KEY (agent, transcript, number)
);

-- Tool results too long for a transcript, whole, in UTF-8.
CREATE TABLE whole_results (
    agent TEXT NOT NULL,
    transcript UUID NOT NULL,
    name TEXT NOT NULL,
    body BYTEA NOT NULL,
    PRIMARY KEY (agent, transcript, name)
);

-- Sessions that are over with something still to do.
CREATE TABLE endings (
    agent TEXT NOT NULL,
    ended_at_ms BIGINT NOT NULL,
    session_id TEXT NOT NULL,
    body TEXT NOT NULL,
    PRIMARY KEY (agent, ended_at_ms, session_id)
);

-- Who is in a turn of a key, until when unless they say so again. `fence` grows with each holder; what a
-- former holder still wants to write is refused.
CREATE TABLE lanes (
    agent TEXT NOT NULL,
    key TEXT NOT NULL,
    fence BIGINT NOT NULL,
    holder TEXT NOT NULL,
    held_until TIMESTAMPTZ NOT NULL,
    PRIMARY KEY (agent, key)
);
