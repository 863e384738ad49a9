"""Facts and notes of identities: set, superseded, recalled together, and nobody else's."""

from __future__ import annotations

import asyncio
import os
import sys
from datetime import UTC, datetime
from pathlib import Path

import pytest

from nacre.extensions.facts.fact_pages import chunk_json, fact_json
from nacre.extensions.facts.identities import Identities
from nacre.memory.contracts.errors import DayUnknown, FactRefused
from nacre.runtime.settings.sections.memory import IdentitySettings
from tests.extensions.facts.pages import Clock, open_facts, page_of
from tests.memory.doubles import WordEmbedder
from tests.servers.warm_python import run_warm

ROOT = Path(__file__).parents[3]


def driven(program: str, folder: Path, *arguments: str) -> str:
    """What a program beside this file prints that forks others; it must end well."""
    done = run_warm(
        *("-m", f"tests.extensions.facts.{program}", str(folder), *arguments),
        cwd=ROOT,
        env=dict(os.environ),
        timeout_seconds=300,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.mark.covers("FACT-2", "FACT-4")
async def test_a_new_value_supersedes_the_old_one(tmp_path: Path, clock: Clock) -> None:
    """What was known on a day is told as of that day, each with its source."""
    facts = open_facts(tmp_path, clock)
    await facts.set_fact("anna", "city", "Lisbon", source="session 1")
    first = clock.moment
    clock.later(days=10)
    again = await facts.set_fact("anna", "City", "Lisbon", source="session 2")
    set_now = await facts.set_fact("anna", "city", "Porto", source="session 2")
    await facts.forget_fact("anna", "nothing")

    assert (again.source, again.at) == ("session 1", first)
    assert (await facts.recall("anna", "")).identity_facts == (set_now,)
    assert fact_json(set_now) == {
        "identity_id": "anna",
        "key": "city",
        "value": "Porto",
        "source": "session 2",
        "created_at": "2026-01-13T10:00:00+00:00",
    }
    (then,) = (await facts.recall("anna", "", as_of="2026-01-12")).identity_facts
    assert (then.value, then.source) == ("Lisbon", "session 1")
    assert (await facts.recall("anna", "", as_of="2026-01-02")).identity_facts == ()
    assert [fact.value for fact in await facts.history("anna", "CITY")] == ["Lisbon", "Porto"]
    with pytest.raises(DayUnknown):
        await facts.recall("anna", "", as_of="some day")
    await facts.close()


async def test_a_fact_may_be_older_than_what_is_known(tmp_path: Path, clock: Clock) -> None:
    """Then it belongs to the history; what is in the future is refused."""
    facts = open_facts(tmp_path, clock)
    await facts.set_fact("anna", "city", "Porto")
    await facts.set_fact("anna", "city", "Lisbon", source="a letter", at=datetime(2019, 5, 1, tzinfo=UTC))
    await facts.set_fact("anna", "city", "Braga", at=datetime(2015, 5, 1))  # noqa: DTZ001 - the owner's zone

    assert [fact.value for fact in await facts.history("anna")] == ["Braga", "Lisbon", "Porto"]
    assert [fact.value for fact in (await facts.known("anna")).facts] == ["Porto"]
    assert [fact.value for fact in (await facts.known("anna", as_of="2020-01-01")).facts] == ["Lisbon"]
    with pytest.raises(FactRefused, match="is in the future"):
        await facts.set_fact("anna", "city", "Mars", at=datetime(2090, 1, 1, tzinfo=UTC))
    await facts.close()


@pytest.mark.covers("FACT-6", "FACT-7", "FACT-8")
async def test_a_note_is_recalled_by_its_id(tmp_path: Path, clock: Clock) -> None:
    """Best first, `k` of them, by words and by meaning, also when facts were written above it since."""
    facts = open_facts(tmp_path, clock, embedder=WordEmbedder())
    chunk = await facts.note("anna", "Prefers Postgres over MySQL.\n\n## Why\n- JSON", source="session 1")
    for number in range(5):
        await facts.note("anna", f"Walked {number} km with the dog.")
    await facts.sync()
    await facts.set_fact("anna", "city", "Porto")
    assert await facts.note("anna", "Prefers Postgres over MySQL.\n\n## Why\n- JSON") == chunk

    found = await facts.recall("anna", "Postgres or MySQL?", k=2)

    assert [fact.value for fact in found.identity_facts] == ["Porto"]
    assert found.memory_chunks[0].note.id == chunk
    assert len((await facts.recall("anna", "the dog walked", k=2)).memory_chunks) == 2
    assert chunk_json(found.memory_chunks[0]) == {
        "id": chunk,
        "identity": "anna",
        "text": "Prefers Postgres over MySQL.\n\n## Why\n- JSON",
        "source": "session 1",
        "created_at": "2026-01-03T10:00:00+00:00",
        "score": round(found.memory_chunks[0].score, 4),
    }
    assert await facts.forget_note(chunk)
    assert not await facts.forget_note(chunk)
    assert chunk not in [hit.note.id for hit in (await facts.recall("anna", "Postgres")).memory_chunks]
    await facts.close()


@pytest.mark.covers("FACT-7")
async def test_facts_and_notes_outlive_the_program_and_the_index(tmp_path: Path, clock: Clock) -> None:
    """The index is made again out of the pages."""
    facts = open_facts(tmp_path, clock)
    await facts.set_fact("anna", "city", "Porto")
    await facts.note("anna", "The giraffe eats leaves.")
    await facts.sync()
    await facts.close()
    for path in (tmp_path / "state").iterdir():
        path.unlink()

    again = open_facts(tmp_path, clock)
    found = await again.recall("anna", "giraffe")

    assert [fact.value for fact in found.identity_facts] == ["Porto"]
    assert [hit.note.text for hit in found.memory_chunks] == ["The giraffe eats leaves."]
    await again.close()


@pytest.mark.covers("FACT-8")
async def test_without_an_index_facts_are_told_and_the_reason(tmp_path: Path, clock: Clock) -> None:
    """Where the index cannot be, the pages still are."""
    (tmp_path / "state").write_text("a file where the index's folder should be")
    facts = open_facts(tmp_path, clock)
    await facts.set_fact("anna", "city", "Porto")
    await facts.note("anna", "The giraffe eats leaves.")

    found = await facts.recall("anna", "giraffe")

    assert [fact.value for fact in found.identity_facts] == ["Porto"]
    assert "facts.sqlite" in found.degraded
    await facts.close()


@pytest.mark.covers("FACT-9", "FACT-10")
async def test_nothing_is_shared_unless_a_rule_says_so(tmp_path: Path, clock: Clock) -> None:
    """Anna and Ben see the household, nobody sees another one, and the rules go one way."""
    reads, writes = IdentitySettings(reads=("Household",)), IdentitySettings(writes=("household",))
    identities = Identities(owner="ben", sharing={"anna": reads, "ben": writes})
    facts = open_facts(tmp_path, clock, identities=identities)
    for name in ("anna", "ben", "carl", "household"):
        await facts.set_fact(name, "secret", name)
        await facts.note(name, f"The giraffe of {name}.")

    async def seen(name: str, *, alone: bool = False) -> tuple[set[object], set[str]]:
        found = await facts.recall(name, "giraffe", k=9, alone=alone)
        return {fact.value for fact in found.identity_facts}, {
            hit.note.identity for hit in found.memory_chunks
        }

    assert await seen("Anna") == ({"anna", "household"}, {"anna", "household"})
    assert await seen("ben") == ({"ben", "household"}, {"ben", "household"})
    assert await seen("carl") == ({"carl"}, {"carl"})
    assert await seen("household") == ({"household"}, {"household"})
    assert await seen("anna", alone=True) == ({"anna"}, {"anna"})
    assert (identities.may_write("ben", "Household"), identities.may_write("anna", "household")) == (
        True,
        False,
    )
    assert (tmp_path / "workspace" / "memory" / "facts.md").exists()
    await facts.close()


@pytest.mark.parametrize("identity", ["", " ", "../anna", "a/b", "x" * 101, "a\nb\x00"])
async def test_a_name_that_cannot_be_one_is_refused(tmp_path: Path, clock: Clock, identity: str) -> None:
    """No name leads out of its folder."""
    with pytest.raises(FactRefused, match="cannot be an identity"):
        await open_facts(tmp_path, clock).set_fact(identity, "city", "Porto")


@pytest.mark.covers("FACT-9")
def test_each_identity_has_a_page_of_its_own() -> None:
    """Names that would be one on some file system are not."""
    names = ["anna", "anna m", "anna-m", "anna.m", "аnna", "Зоя", "con", "..", "anna m"]
    pages = [Identities().page_of(name) for name in names]
    assert len(set(pages)) == len(set(names))
    assert all(page.startswith("people/") and page.isascii() and ".." not in page for page in pages)
    assert Identities().page_of(" ANNA ") == Identities().page_of("anna")


@pytest.mark.skipif(sys.platform == "win32", reason="there is no fork")
@pytest.mark.covers("FACT-1")
def test_two_processes_at_once_lose_nothing(tmp_path: Path) -> None:
    """Each write sees the other's; who sees a fact sees the note that was there before it."""
    done = driven("drawing_writers", tmp_path, "2", "8")
    known = asyncio.run(open_facts(tmp_path, Clock()).known("anna"))

    assert done.startswith("looked ")
    assert sorted(str(fact.value) for fact in known.facts) == sorted(str(number) for number in range(16))
    assert len({note.id for note in known.notes}) == 16
    assert sorted(path.name for path in page_of(tmp_path).parent.iterdir()) == ["facts.md"]


@pytest.mark.skipif(sys.platform == "win32", reason="there is no limit on the size of files")
@pytest.mark.parametrize("how", ["kill", "refuse"])
@pytest.mark.parametrize("step", [37, pytest.param(1, marks=pytest.mark.slow)])
@pytest.mark.covers("FACT-1")
def test_a_kill_or_a_full_disk_at_any_byte_leaves_the_page(tmp_path: Path, how: str, step: int) -> None:
    """The page is the old one or the new one, whatever was left beside it."""
    facts = open_facts(tmp_path, Clock())
    asyncio.run(facts.set_fact("anna", "city", "Lisbon"))

    done = driven("dying_writer", tmp_path, how, str(step))

    assert done.strip().endswith("new 1")
    assert sorted(path.name for path in page_of(tmp_path).parent.iterdir()) == ["facts.md"]
