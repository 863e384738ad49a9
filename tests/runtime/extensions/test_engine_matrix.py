"""Each engine: stored, recalled, forgotten, after a restart, without its embedder, on a full disk, apart."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import pytest

from tests.runtime.extensions.engine_matrix import ENGINES, Tried, no_room

BOAT = "My boat is called Halcyon."
ASKED = "What is my boat called?"


@pytest.fixture(params=ENGINES, ids=lambda kind: kind.__name__)
def kind(request: pytest.FixtureRequest) -> type[Tried]:
    """An engine that is installed; for another one the reason."""
    found: type[Tried] = request.param
    if found.lacks:
        pytest.skip(found.lacks)
    return found


@pytest.mark.covers("SEED-33")
async def test_what_is_stored_is_recalled_and_stays_over_a_restart(kind: type[Tried], tmp_path: Path) -> None:
    """Before it was stored there is nothing; afterwards it is there, and in the next process too."""
    async with kind(tmp_path).open() as engine:
        assert "Halcyon" not in await engine.ask(ASKED)
        await engine.store(BOAT)
        assert "Halcyon" in await engine.ask(ASKED)
    async with kind(tmp_path).open() as engine:
        assert "Halcyon" in await engine.ask(ASKED)


@pytest.mark.covers("SEED-33")
async def test_what_is_forgotten_is_gone(kind: type[Tried], tmp_path: Path) -> None:
    """At once, and after a restart."""
    if reason := kind.cannot.get("forget"):
        pytest.skip(reason)
    async with kind(tmp_path).open() as engine:
        await engine.store(BOAT)
        await engine.forget(BOAT)
        assert "Halcyon" not in await engine.ask(ASKED)
    async with kind(tmp_path).open() as engine:
        assert "Halcyon" not in await engine.ask(ASKED)


@pytest.mark.covers("SEED-33")
async def test_without_its_provider_words_still_find(kind: type[Tried], tmp_path: Path) -> None:
    """An embedder or a program that is down takes neither storing nor recalling along."""
    async with kind.without_provider(tmp_path).open() as engine:
        await engine.store(BOAT)
        assert "Halcyon" in await engine.ask(ASKED)


@pytest.mark.covers("SEED-33")
async def test_a_full_disk_loses_nothing(kind: type[Tried], tmp_path: Path) -> None:
    """What was there is still recalled, and with room again the next statement is kept."""
    async with kind(tmp_path).open() as engine:
        await engine.store(BOAT)
        with no_room(), suppress(Exception):  # the slot tells it; here what is left afterwards counts
            await engine.store("My cat is called Halcyon too, and likes fish.")
        assert "Halcyon" in await engine.ask(ASKED)
        await engine.store("My boat is called Halcyon, and is blue.")
        assert "blue" in await engine.ask(ASKED)


@pytest.mark.covers("SEED-33")
async def test_two_agents_do_not_share(kind: type[Tried], tmp_path: Path) -> None:
    """What one agent of a state folder keeps is not told by the other."""
    async with kind(tmp_path).open() as one, kind(tmp_path, agent_id="other").open() as other:
        await one.store(BOAT)
        assert "Halcyon" not in await other.ask(ASKED)
        assert "Halcyon" in await one.ask(ASKED)


@pytest.mark.covers("SEED-33")
async def test_a_group_hears_nothing_private(kind: type[Tried], tmp_path: Path) -> None:
    """What the owner said in private is not found from a group."""
    async with kind(tmp_path).open() as engine:
        await engine.store(BOAT)
        assert "Halcyon" not in await engine.ask(ASKED, group=True)
