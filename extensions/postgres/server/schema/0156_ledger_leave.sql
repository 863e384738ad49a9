-- A program leaves those that share a ledger, with all its accounts. One that lives stands for the others from then
-- on, or nobody.
CREATE FUNCTION ledger_leave(of_agent TEXT, of_process BIGINT) RETURNS VOID LANGUAGE sql AS $$
    UPDATE ledger_accounts SET process = NULL WHERE agent = of_agent AND process = of_process;
    DELETE FROM ledger_gateways WHERE agent = of_agent AND process = of_process;
    UPDATE ledger_holders AS held SET process = other.process, holder = coalesce(other.holder, held.holder)
    FROM (SELECT) AS here LEFT JOIN LATERAL (
        SELECT gateway.process, gateway.holder FROM ledger_gateways AS gateway
        JOIN processes ON number = gateway.process AND alive_until > clock_timestamp()
        WHERE gateway.agent = of_agent LIMIT 1) AS other ON TRUE
    WHERE held.agent = of_agent AND held.process = of_process
$$;
