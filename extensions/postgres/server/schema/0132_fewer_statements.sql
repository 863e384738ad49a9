-- What belongs together as one statement, which is a transaction of its own. Each function does nothing new when it
-- is run again, because its answer may be lost. plpgsql sees in each step what was committed until then.

-- Jobs of a former version have rows of all agents: nobody but their owner may see them.
DO $$
DECLARE
    found NAME;
BEGIN
    FOR found IN
        SELECT relname FROM pg_class
        WHERE relnamespace = current_schema()::regnamespace AND relkind IN ('r', 'p')
            AND (starts_with(relname::text, 'procrastinate_') OR relname = 'nacre_job_migrations')
            AND pg_has_role(relowner, 'MEMBER')
    LOOP
        EXECUTE format('ALTER TABLE %I ENABLE ROW LEVEL SECURITY', found);
    END LOOP;
END
$$;

-- A number that whoever stores a message draws, so that it knows its own row again.
ALTER TABLE ledger_inbound ADD COLUMN receipt BIGINT;

-- The number of a message that was not received before, or by this very call whose answer was lost. With `begins`
-- its turn begins with it.
CREATE FUNCTION ledger_receive(
    of_agent TEXT, of_fence BIGINT, of_channel TEXT, of_account TEXT, of_chat TEXT, of_message TEXT,
    of_session TEXT, answering TEXT, at_ms BIGINT, of_body TEXT, new_cursor TEXT, owner_chat TEXT,
    of_receipt BIGINT, begins BOOLEAN
) RETURNS BIGINT LANGUAGE plpgsql AS $$
DECLARE
    found BIGINT;
BEGIN
    PERFORM ledger_is_held(of_agent, of_fence);
    IF new_cursor <> '' THEN
        INSERT INTO ledger_cursors (agent, channel, account, value)
        VALUES (of_agent, of_channel, of_account, new_cursor)
        ON CONFLICT (agent, channel, account) DO UPDATE SET value = EXCLUDED.value;
    END IF;
    INSERT INTO ledger_inbound (agent, channel, account, chat_id, message_id, session_key, answered_by, state,
        received_ms, body, receipt)
    VALUES (of_agent, of_channel, of_account, of_chat, of_message, of_session, answering, 'waiting',
        at_ms, of_body, of_receipt)
    ON CONFLICT (agent, channel, account, chat_id, message_id) DO NOTHING RETURNING number INTO found;
    IF found IS NULL THEN
        SELECT number INTO found FROM ledger_inbound
        WHERE agent = of_agent AND channel = of_channel AND account = of_account AND chat_id = of_chat
            AND message_id = of_message AND receipt = of_receipt;
        RETURN found;
    END IF;
    IF begins THEN
        UPDATE ledger_inbound SET state = 'running', attempts = attempts + 1, turn = found
        WHERE agent = of_agent AND number = found;
    END IF;
    IF owner_chat <> '' THEN
        INSERT INTO ledger_owner_chats (agent, answered_by, channel, account, at_ms, inbound)
        VALUES (of_agent, answering, of_channel, of_account, ledger_receive.at_ms, owner_chat)
        ON CONFLICT (agent, answered_by, channel, account)
        DO UPDATE SET at_ms = EXCLUDED.at_ms, inbound = EXCLUDED.inbound;
    END IF;
    RETURN found;
END
$$;

-- Marks messages as answered and adds the parts of their answer, unless that was done before. The draft that
-- was shown becomes the first part. Each sixteenth message of an agent removes what is old in its chat.
CREATE FUNCTION ledger_finish(
    of_agent TEXT, of_fence BIGINT, numbers BIGINT[], of_turn BIGINT, of_channel TEXT, of_account TEXT,
    of_chat TEXT, of_thread TEXT, of_answers TEXT, of_asker TEXT, parts TEXT[], kept_in TEXT[], most INTEGER
) RETURNS BOOLEAN LANGUAGE plpgsql AS $$
DECLARE
    draft BIGINT;
BEGIN
    PERFORM ledger_is_held(of_agent, of_fence);
    UPDATE ledger_inbound SET state = 'done', body = NULL
    WHERE agent = of_agent AND number = ANY(numbers) AND state <> 'done';
    IF NOT FOUND THEN
        RETURN FALSE;
    END IF;
    SELECT number INTO draft FROM ledger_outbound
    WHERE agent = of_agent AND turn = of_turn AND state = 'draft';
    IF draft IS NOT NULL AND cardinality(parts) > 0 THEN
        UPDATE ledger_outbound SET text = parts[1], asker = of_asker,
            state = CASE WHEN sent_id = '' THEN 'unsure' ELSE 'pending' END
        WHERE agent = of_agent AND number = draft;
        parts := parts[2:];
    ELSIF draft IS NOT NULL THEN
        UPDATE ledger_outbound SET state = 'sent' WHERE agent = of_agent AND number = draft;
    END IF;
    INSERT INTO ledger_outbound (agent, turn, channel, account, chat_id, thread_id, answers, text, state,
        was_draft, asker)
    SELECT of_agent, of_turn, of_channel, of_account, of_chat, of_thread, of_answers, part, 'pending', FALSE,
        of_asker
    FROM unnest(parts) WITH ORDINALITY AS each (part, place) ORDER BY place;
    IF of_turn % 16 = 0 THEN
        DELETE FROM ledger_inbound WHERE agent = of_agent AND channel = kept_in[1] AND account = kept_in[2]
            AND chat_id = kept_in[3] AND state IN ('done', 'dropped') AND number <= (
                SELECT number FROM ledger_inbound WHERE agent = of_agent AND channel = kept_in[1]
                    AND account = kept_in[2] AND chat_id = kept_in[3]
                ORDER BY number DESC LIMIT 1 OFFSET most);
        DELETE FROM ledger_outbound WHERE agent = of_agent AND channel = kept_in[1] AND account = kept_in[2]
            AND chat_id = kept_in[3] AND state IN ('sent', 'failed') AND number <= (
                SELECT number FROM ledger_outbound WHERE agent = of_agent AND channel = kept_in[1]
                    AND account = kept_in[2] AND chat_id = kept_in[3]
                ORDER BY number DESC LIMIT 1 OFFSET most);
    END IF;
    RETURN TRUE;
END
$$;

-- Takes a lane that was left, or whose process is silent; a holder whose answer was lost gets a later fence. With
-- what a turn reads first: the line of the session, and the row of its transcript, both as the former holder
-- left them.
CREATE FUNCTION lane_take(of_agent TEXT, of_key TEXT, new_holder TEXT, of_process BIGINT)
RETURNS TABLE (new_fence BIGINT, found_line TEXT, found_name TEXT, found_id UUID, found_lines INTEGER,
    found_bytes BIGINT) LANGUAGE plpgsql AS $$
DECLARE
    session TEXT;
BEGIN
    INSERT INTO lanes AS lane (agent, key, fence, holder, held_until, life)
    VALUES (of_agent, of_key, 1, new_holder, 'infinity', of_process)
    ON CONFLICT (agent, key) DO UPDATE
    SET fence = lane.fence + 1, holder = EXCLUDED.holder, held_until = EXCLUDED.held_until, life = EXCLUDED.life
    WHERE lane.held_until < clock_timestamp() OR lane.holder = EXCLUDED.holder
        OR lane.held_until = 'infinity' AND NOT EXISTS (
            SELECT FROM processes WHERE number = lane.life AND alive_until > clock_timestamp())
    RETURNING fence INTO new_fence;
    IF new_fence IS NULL THEN
        RETURN;
    END IF;
    SELECT line, session_id INTO found_line, session FROM session_lines
    WHERE agent = of_agent AND key = of_key;
    SELECT name, id, lines, size_bytes INTO found_name, found_id, found_lines, found_bytes FROM transcripts
    WHERE agent = of_agent AND name = session || '.jsonl';
    RETURN NEXT;
END
$$;
