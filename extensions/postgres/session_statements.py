"""All statements on the tables of sessions. They depend on `extensions/postgres/server/schema/`.

Each names its agent; a test reads the server's plans to check that none visits the rows of others. Writes for
the holder of a lane take `fence` (null outside of a turn) and lock the lane's row until the commit: the next
holder waits for the write, and late writes of an earlier holder are refused.
"""

from __future__ import annotations

_FENCE = """
WITH mine AS MATERIALIZED (
    SELECT fence FROM lanes WHERE agent = %(agent)s AND key = %(lane)s AND fence = %(fence)s::bigint FOR SHARE
)"""
_HOLDS = "(%(fence)s::bigint IS NULL OR EXISTS (SELECT FROM mine))"

_ALONE = """alone AS MATERIALIZED (
    SELECT pg_advisory_xact_lock_shared(hashtextextended(%(agent)s, 1))
)"""
LOCK_LINES = "SELECT pg_advisory_xact_lock(hashtextextended(%(agent)s, 1))"
"""Serializes changes of several lines."""
LINE = "SELECT line FROM session_lines WHERE agent = %(agent)s AND key = %(key)s"
LINES = "SELECT key, line FROM session_lines WHERE agent = %(agent)s"
REPLACE_LINE = f"""{_FENCE}, {_ALONE}
INSERT INTO session_lines (agent, key, session_id, line)
SELECT %(agent)s, %(key)s, %(session_id)s, %(line)s FROM alone
WHERE {_HOLDS} AND (%(old)s::text IS NULL OR EXISTS (
    SELECT FROM session_lines WHERE agent = %(agent)s AND key = %(key)s AND line = %(old)s::text))
ON CONFLICT (agent, key) DO UPDATE SET session_id = EXCLUDED.session_id, line = EXCLUDED.line
WHERE session_lines.line = %(old)s::text
RETURNING key
"""
"""Writes nothing if the line is no longer `old`; null means no line."""
REMOVE_LINE = f"""{_FENCE}, {_ALONE}
DELETE FROM session_lines USING alone
WHERE agent = %(agent)s AND key = %(key)s AND line = %(old)s::text AND {_HOLDS} RETURNING key
"""

HEAD = """
SELECT id, lines, size_bytes, coalesce(
    (SELECT key FROM session_lines WHERE agent = %(agent)s AND session_id = transcripts.session_id LIMIT 1),
    owner_key)
FROM transcripts WHERE agent = %(agent)s AND name = %(name)s
"""
"""Includes the key whose lane the transcript belongs to: the one that names it now, or its first one."""
HAS_TRANSCRIPT = "SELECT id FROM transcripts WHERE agent = %(agent)s AND name = %(name)s"
TRANSCRIPTS = """
SELECT name, session_id, owner_key, chat_kind, lines, size_bytes, begun_at, grown_at, aside_at IS NOT NULL
FROM transcripts WHERE agent = %(agent)s ORDER BY name COLLATE "C"
"""
BEGIN_TRANSCRIPT = """
INSERT INTO transcripts
    (agent, name, session_id, owner_key, chat_kind, lines, size_bytes, begun_at, grown_at)
VALUES (%(agent)s, %(name)s, %(session_id)s, %(owner_key)s, %(chat_kind)s, %(lines)s, %(size_bytes)s,
    %(at)s, %(at)s)
ON CONFLICT DO NOTHING RETURNING id
"""
ADD_LINE = """
INSERT INTO transcript_lines (agent, transcript, number, line)
VALUES (%(agent)s, %(transcript)s, %(number)s, %(line)s)
"""
"""For transcripts that are not visible before the commit: new ones and copies."""
APPEND_LINE = f"""{_FENCE}, {_ALONE}, grown AS (
    UPDATE transcripts
    SET lines = lines + 1, size_bytes = size_bytes + length(%(line)s::bytea), grown_at = %(at)s,
        owner_key = coalesce(owner_key, %(owner_key)s), chat_kind = coalesce(chat_kind, %(chat_kind)s)
    WHERE agent = %(agent)s AND name = %(name)s AND id = %(transcript)s AND lines = %(number)s AND {_HOLDS}
    RETURNING id
), mirrored AS (
    UPDATE session_lines SET line = %(new)s FROM alone
    WHERE agent = %(agent)s AND key = %(lane)s AND line = %(old)s::text AND EXISTS (SELECT FROM grown)
    RETURNING key
)
INSERT INTO transcript_lines (agent, transcript, number, line)
SELECT %(agent)s, id, %(number)s, %(line)s FROM grown RETURNING number, EXISTS (SELECT FROM mirrored)
"""
"""Adds nothing if the fence is outdated, or others have added a line. Replaces the line of the index if it is
still `old`, and returns whether it did; null replaces none."""
FENCE_HOLDS = "SELECT 1 FROM lanes WHERE agent = %(agent)s AND key = %(lane)s AND fence = %(fence)s"
LINE_AT = """
SELECT line FROM transcript_lines
WHERE agent = %(agent)s AND transcript = %(transcript)s AND number = %(number)s
"""
LINES_FROM = """
SELECT line FROM transcript_lines
WHERE agent = %(agent)s AND transcript = %(transcript)s AND number >= %(number)s ORDER BY number
"""
NUMBERED_LINES = """
SELECT number, line FROM transcript_lines
WHERE agent = %(agent)s AND transcript = %(transcript)s ORDER BY number
"""
SET_LINE = """
UPDATE transcript_lines SET line = %(line)s
WHERE agent = %(agent)s AND transcript = %(transcript)s AND number = %(number)s
"""
"""Rewrites a line when words are forgotten."""
LAST_LINES = """
SELECT line FROM transcript_lines
WHERE agent = %(agent)s AND transcript = %(transcript)s AND number > 0 ORDER BY number DESC LIMIT %(most)s
"""
MOVE_ASIDE = """
UPDATE transcripts SET name = %(aside)s, aside_at = %(at)s
WHERE agent = %(agent)s AND name = %(name)s AND aside_at IS NULL RETURNING name
"""
REMOVE_TRANSCRIPT = """
WITH gone AS (DELETE FROM transcripts WHERE agent = %(agent)s AND name = %(name)s RETURNING id),
gone_results AS (
    DELETE FROM whole_results WHERE agent = %(agent)s AND transcript = ANY (SELECT id FROM gone)
)
DELETE FROM transcript_lines WHERE agent = %(agent)s AND transcript = ANY (SELECT id FROM gone)
"""
RESULT_BYTES = """
SELECT name, (SELECT coalesce(sum(length(body)), 0)::bigint FROM whole_results
    WHERE agent = %(agent)s AND transcript = transcripts.id)
FROM transcripts WHERE agent = %(agent)s
"""

KEEP_RESULT = f"""{_FENCE}
INSERT INTO whole_results (agent, transcript, name, body)
SELECT %(agent)s, %(transcript)s, %(name)s, %(body)s WHERE {_HOLDS}
ON CONFLICT (agent, transcript, name) DO UPDATE SET body = EXCLUDED.body RETURNING name
"""
RESULT = """
SELECT body FROM whole_results
WHERE agent = %(agent)s AND transcript = %(transcript)s AND name = %(name)s
"""
RESULTS = """
SELECT name, body FROM whole_results WHERE agent = %(agent)s AND transcript = %(transcript)s ORDER BY name
"""
COPY_RESULTS = """
INSERT INTO whole_results (agent, transcript, name, body)
SELECT agent, %(copy)s, name, body FROM whole_results
WHERE agent = %(agent)s AND transcript = %(transcript)s
"""

PUT_ENDING = """
INSERT INTO endings (agent, ended_at_ms, session_id, body)
VALUES (%(agent)s, %(ended_at_ms)s, %(session_id)s, %(body)s)
ON CONFLICT (agent, ended_at_ms, session_id) DO UPDATE SET body = EXCLUDED.body
"""
REMOVE_ENDING = """
DELETE FROM endings
WHERE agent = %(agent)s AND ended_at_ms = %(ended_at_ms)s AND session_id = %(session_id)s
"""
HAS_ENDING = """
SELECT 1 FROM endings
WHERE agent = %(agent)s AND ended_at_ms = %(ended_at_ms)s AND session_id = %(session_id)s
"""
ENDINGS = "SELECT body FROM endings WHERE agent = %(agent)s ORDER BY ended_at_ms, session_id"

TAKE_LANE = "SELECT * FROM lane_take(%(agent)s, %(lane)s, %(holder)s, %(process)s)"
"""Returns the fence and the rows that a turn reads first."""
LEAVE_LANE = """
UPDATE lanes SET held_until = '-infinity'
WHERE agent = %(agent)s AND key = %(lane)s AND fence = %(fence)s
"""
