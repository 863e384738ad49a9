-- A search reads whatever waits for its place in the index over words, whoever wrote it. The server's usual limit of
-- 4 MB took longer than the search. An operator may have partitioned the table.
DO $$
DECLARE
    found REGCLASS;
BEGIN
    FOR found IN
        SELECT indexrelid FROM pg_index JOIN pg_class ON pg_class.oid = indexrelid
        JOIN pg_am ON pg_am.oid = relam AND amname = 'gin'
        WHERE relkind = 'i' AND (indrelid = 'memory_words'::regclass
            OR indrelid IN (SELECT relid FROM pg_partition_tree('memory_words')))
    LOOP
        EXECUTE format('ALTER INDEX %s SET (gin_pending_list_limit = 64)', found);
    END LOOP;
END
$$;
