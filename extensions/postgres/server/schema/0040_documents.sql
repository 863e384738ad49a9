-- The owner's Markdown, and what else lies in a workspace.

-- How often anything of a workspace was written. Whoever writes holds this row until the commit.
CREATE TABLE workspaces (
    agent text NOT NULL PRIMARY KEY,
    revision bigint NOT NULL
);

-- Each file byte for byte, with the number of the write that made it so. A row without a body is a folder that
-- was made empty. Names compare by their bytes, so that what lies in a folder is one range of the key.
CREATE TABLE documents (
    agent text NOT NULL,
    name text COLLATE "C" NOT NULL,
    body bytea,
    revision bigint NOT NULL,
    changed_us bigint NOT NULL,
    PRIMARY KEY (agent, name)
);
