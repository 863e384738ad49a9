"""Every statement to the table of turns. A contract with `postgres/schema/`.

Each names its agent; a test reads the server's plans.
"""

from __future__ import annotations

from typing import LiteralString

FORGET: LiteralString = """
DELETE FROM turns WHERE agent = %(agent)s AND session_key = %(key)s AND state = 'done'
    AND done_at < clock_timestamp() - make_interval(secs => %(seconds)s)
"""
ASK: LiteralString = """
INSERT INTO turns (agent, id, session_key, inbound, is_redelivered)
VALUES (%(agent)s, %(id)s, %(key)s, %(inbound)s, %(is_redelivered)s) ON CONFLICT DO NOTHING
"""
TAKE: LiteralString = """
UPDATE turns SET state = 'running', fence = fence + 1, tries = tries + 1
WHERE agent = %(agent)s AND id = %(id)s AND state <> 'done' RETURNING fence, tries, inbound, is_redelivered
"""
GIVE_BACK: LiteralString = """
UPDATE turns SET state = 'waiting', tries = tries - 1
WHERE agent = %(agent)s AND id = %(id)s AND fence = %(fence)s AND state = 'running' RETURNING id
"""
FINISH: LiteralString = """
UPDATE turns SET state = 'done', outcome = %(outcome)s, inbound = '', done_at = clock_timestamp()
WHERE agent = %(agent)s AND id = %(id)s AND fence = %(fence)s
    AND (state = 'running' OR state = 'done' AND outcome = %(outcome)s) RETURNING id
"""
"""Also when it was kept already and nobody heard of it."""
STOP: LiteralString = """
UPDATE turns SET state = 'done', outcome = %(outcome)s, inbound = '', done_at = clock_timestamp()
WHERE agent = %(agent)s AND session_key = %(key)s AND state <> 'done'
"""
HOLDS: LiteralString = """
SELECT 1 FROM turns WHERE agent = %(agent)s AND id = %(id)s AND fence = %(fence)s AND state = 'running'
"""
OUTCOMES: LiteralString = """
SELECT id, outcome, ARRAY(
    SELECT name FROM turn_words WHERE agent = %(agent)s AND turn = turns.id AND heard)
FROM turns WHERE agent = %(agent)s AND id = ANY(%(ids)s) AND state = 'done'
"""
SAY_INTO: LiteralString = """
INSERT INTO turn_words (agent, turn, name, inbound)
SELECT agent, id, %(name)s, %(inbound)s FROM turns
WHERE agent = %(agent)s AND id = %(id)s AND state <> 'done'
"""
WORDS: LiteralString = """
SELECT number, name, inbound FROM turn_words
WHERE agent = %(agent)s AND turn = %(id)s AND number > %(after)s ORDER BY number
"""
HEARD: LiteralString = """
UPDATE turn_words SET heard = TRUE WHERE agent = %(agent)s AND turn = %(id)s AND name = %(name)s
"""
ASKS: LiteralString = """
INSERT INTO turn_questions (agent, turn, approval, body)
SELECT agent, id, %(approval)s, %(body)s FROM turns
WHERE agent = %(agent)s AND id = %(id)s AND fence = %(fence)s AND state = 'running' ON CONFLICT DO NOTHING
"""
QUESTIONS: LiteralString = """
SELECT turn, approval, body FROM turn_questions
WHERE agent = %(agent)s AND turn = ANY(%(ids)s) AND NOT told ORDER BY number
"""
TOLD: LiteralString = """
UPDATE turn_questions SET told = TRUE
WHERE agent = %(agent)s AND turn = %(id)s AND approval = %(approval)s
"""
ENDED: LiteralString = """
SELECT id, outcome,
    (SELECT string_agg(inbound, E'\\n') FROM turn_words WHERE agent = %(agent)s AND turn = turns.id),
    (SELECT string_agg(body, E'\\n') FROM turn_questions WHERE agent = %(agent)s AND turn = turns.id)
FROM turns WHERE agent = %(agent)s AND state = 'done'
"""
FORGET_ENDED: LiteralString = """
DELETE FROM turns WHERE agent = %(agent)s AND id = ANY(%(ids)s) AND state = 'done'
"""
WAITING: LiteralString = """
SELECT id, inbound FROM turns WHERE agent = %(agent)s AND state <> 'done' AND state = 'waiting'
"""
FORGET_WAITING: LiteralString = """
DELETE FROM turns WHERE agent = %(agent)s AND id = ANY(%(ids)s) AND state = 'waiting'
"""
OPEN: LiteralString = """
SELECT state, count(*), extract(epoch FROM clock_timestamp() - min(asked_at))::float
FROM turns WHERE agent = %(agent)s AND state <> 'done' GROUP BY state
"""
LEASES: LiteralString = """
SELECT count(*) FILTER (WHERE held_until > clock_timestamp()),
    count(*) FILTER (WHERE held_until <= clock_timestamp() AND held_until <> '-infinity')
FROM lanes WHERE agent = %(agent)s
"""
"""Of lanes that were left nothing is held."""
