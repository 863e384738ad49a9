-- Marks the first part of an answer as being sent, in the statement that finished the turn, and returns its number;
-- also when that statement is run again because its answer was lost. NULL if there is none, or if a draft shows it.
CREATE FUNCTION ledger_send_first(
    of_agent TEXT, of_turn BIGINT, of_channel TEXT, of_account TEXT, of_chat TEXT, is_finished BOOLEAN
) RETURNS BIGINT LANGUAGE plpgsql AS $$
DECLARE
    found BIGINT;
BEGIN
    SELECT number INTO found FROM ledger_outbound
    WHERE agent = of_agent AND channel = of_channel AND account = of_account AND chat_id = of_chat
        AND turn = of_turn AND state IN ('pending', 'sending', 'unsure')
    ORDER BY number LIMIT 1;
    UPDATE ledger_outbound SET state = 'sending'
    WHERE agent = of_agent AND number = found AND state IN ('pending', 'sending') AND NOT was_draft
    RETURNING number INTO found;
    RETURN found;
END
$$;
