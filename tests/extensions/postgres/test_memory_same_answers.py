"""The store in Postgres finds, ranks and scores as the one in a file does."""

from __future__ import annotations

import random
from datetime import date
from pathlib import Path

import pytest

from nacre.memory.contracts.store import Scope, Scores, Store
from nacre.memory.stores.sqlite.store import SqliteStore
from nacre.memory.text.lexical import match_query
from tests.memory.stores.sample_index import BOTH, MEMORY, OpenStore, chunk, indexed, put

WORDS = (
    *(
        "apple",
        "apples",
        "running",
        "runs",
        "café",
        "router",
        "vlan",
        "kitchen",
        "garden",
        "meeting",
        "invoice",
    ),
    *(
        "memorySearch",
        "wi-fi",
        "#12",
        "讨论方案",
        "今天",
        "寿司を食べた",
        "커피를",
        "машины",
        "हिन्दी",
        "สวัสดี",
        "and",
        "the",
    ),
)
QUESTIONS = (
    *("apple", "who runs the kitchen?", '"garden meeting"', "memory search", "#12", "wifi router vlan"),
    *("讨论", "寿司", "машина", "สวัสดี", "invoice in the garden", "gard", "the running café and the apples"),
)
SCORES_MAY_DIFFER = 1e-4
"""How far a score may be off, as a share: Postgres ranks in 32-bit numbers."""


async def test_words_have_the_scores_of_the_file(open_store: OpenStore, tmp_path: Path) -> None:
    """In small indexes, and in those where rare words choose; in every script and scope."""
    chance = random.Random(5)
    files = [
        indexed(
            chunk(
                " ".join(chance.choices(WORDS, range(1, len(WORDS) + 1), k=chance.randint(3, 60))),
                path=f"memory/2026-01-{1 + at % 28:02}/{at}.md",
                day=date(2026, 1, 1 + at % 28),
                headings=("Top", chance.choice(WORDS)),
            )
        )
        for at in range(300)
    ]
    ours, theirs = await open_store(), await SqliteStore.open(tmp_path / "main.sqlite")
    await put(ours, *files)
    await put(theirs, *files)
    scopes = (MEMORY, BOTH, Scope(sources=("memory",), after=date(2026, 1, 20), below="memory/2026-01-21"))
    for question in QUESTIONS:
        for scope in scopes:
            asked = match_query(question)
            assert asked is not None

            async def look(store: Store, query=asked, scope=scope) -> tuple[Scores, list[int]]:
                return await store.search(
                    lambda moment: (
                        moment.lexical(query, limit=500, scope=scope),
                        list(moment.counts_of(query.atoms)),
                    )
                )

            (found, counts), (wanted, told) = await look(ours), await look(theirs)
            assert counts == told, question
            assert {
                key: pytest.approx(value, rel=SCORES_MAY_DIFFER) for key, value in wanted.items()
            } == found, question
    await theirs.close()
