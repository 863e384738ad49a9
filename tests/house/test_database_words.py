"""No file outside of a database's own room speaks that database's language."""

from __future__ import annotations

import re

import pytest

from tests.house.rules.files import stale
from tests.house.rules.source import Source
from tests.house.tree import HOUSE

ROOMS = (
    "memory/stores/",
    "runtime/ledger/",
    "runtime/storage/",
    "extensions/lancedb/",
    "extensions/postgres/",
)
WORDS = re.compile(
    r"sqlite|apsw|\bfts\d?\b|rowid|pragma|write-ahead|\bwal\b|_?bm25\(|\bvacuum\b|\.db\b|\bMATCH \?",
    re.IGNORECASE,
)
ALLOWED = {
    "cli/memory/text.py": "a field that programs know from OpenClaw's `memory status --json`",
    "extensions/forget/search.py": "every row of any such file is searched for what is forgotten",
    "extensions/backup/commands.py": "a database is copied with SQLite's API, without its temporary files",
    "extensions/importers/sources/hermes.py": "the other program keeps its sessions in one, which is read",
    "extensions/importers/sources/openclaw.py": "newer versions of the other program keep sessions in one",
    "memory/contracts/settings.py": "the owner's settings name the database and where its file lies",
    "extensions/qmd/program.py": "what the program qmd says about its own index",
    "sessions/compaction/facts.py": "an ending of file names that people talk about",
}


def database_words(source: Source) -> list[str]:
    """Lines that say a word of SQLite's."""
    return [
        f"{source.path}:{number} {line.strip()}"
        for number, line in enumerate(source.text.splitlines(), start=1)
        if WORDS.search(line)
    ]


def test_a_database_is_spoken_of_in_its_own_room() -> None:
    """Contracts, sync and search would be the same over another database; each exception has its reason."""
    complaints = [
        line for source in HOUSE if not source.path.startswith(ROOMS) for line in database_words(source)
    ]

    assert [line for line in complaints if line.partition(":")[0] not in ALLOWED] == []
    assert stale(ALLOWED, complaints) == []


@pytest.mark.parametrize(
    ("bad", "good"),
    [
        (
            "from nacre.memory.stores.sqlite.store import SqliteStore",
            "from nacre.memory.contracts.store import Store",
        ),
        ("query = 'notes MATCH ?'", "match = pattern.match(text)"),
        ("# as FTS5 does", "# as a store does"),
        ("order by rowid", "in the order of their ids"),
        ("name + '-wal'", "a wall"),
    ],
)
def test_the_rule_tells_bad_from_good(bad: str, good: str) -> None:
    """It complains about the one line and not about the other."""
    found = [
        database_words(Source(path="memory/x.py", module="nacre.memory.x", text=text)) for text in (bad, good)
    ]

    assert [bool(complaints) for complaints in found] == [True, False]
