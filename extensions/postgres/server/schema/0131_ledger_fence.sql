-- Whether the program with a fence, or one without, still serves the ledger; a later program has to wait for the
-- commit. Raises an error where it does not.
CREATE FUNCTION ledger_is_held(held_agent TEXT, held_fence BIGINT) RETURNS BOOLEAN LANGUAGE plpgsql AS $$
BEGIN
    IF held_fence IS NULL THEN
        RETURN TRUE;
    END IF;
    PERFORM FROM ledger_holders WHERE agent = held_agent AND fence = held_fence FOR SHARE;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'another program serves the ledger' USING ERRCODE = 'NA001';
    END IF;
    RETURN TRUE;
END
$$;
