"""Memory at a glance: what is known, new, waiting, contradictory and never recalled."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

from nacre.cli.memory.text import overview_lines
from nacre.memory.files.proposals import ReviewQueue
from nacre.memory.files.sources.proposed_write import ProposedWrite
from nacre.memory.files.sources.source import PRIVATE, Source
from nacre.runtime.agent.insight.memory_overview import MemoryOverview, memory_overview
from nacre.runtime.models.scripted import Clock, ScriptedModel, calls, says
from nacre.runtime.settings.config import load_config
from tests.runtime.agents import START, opened, said, write_settings

SETTINGS = {"agents": {"defaults": {"memorySearch": {"provider": "none"}}}}


async def overview_of(state: Path) -> MemoryOverview:
    config = load_config({"HOME": str(state / "home"), "NACRE_STATE_DIR": str(state)})
    return await memory_overview(config, Clock(START))


def notes(state: Path, **texts: str) -> None:
    for name, text in texts.items():
        path = state / "workspace" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")


async def test_everything_is_counted_from_the_notes(tmp_path: Path) -> None:
    """Logs, topics, values, chats, this week's lines and what waits are shown within 80 columns."""
    write_settings(tmp_path, SETTINGS)
    notes(
        tmp_path,
        **{
            "MEMORY.md": "# Memory\n\n## People\n\n- Dentist: Dr. Aalto\n- Prefers short answers.\n",
            "memory/reminders.md": "- [ ] boat: Phone: 3\n- [x] mast: Phone: 4 (2026-03-01)\n",
            "memory/garden.md": "# Garden\n\n- Pear trees: three\n",
            "memory/2026-01-20.md": "- Long ago.\n",
            "memory/2026-03-13.md": "# Friday\n\n- The scale showed 14 kg.\n"
            "  - How heavy is the hive?\n\n> quoted: no\n",
            "memory/2026-03-14.md": "- Ilse shares the mooring.\n",
            "memory/2026-03-12-boat.md": "- **Session Key**: agent:main:main\n",
            "chats/irc-group-hive/memory/2026-03-14.md": "- Others said this.\n",
        },
    )
    queue = ReviewQueue(tmp_path / "agents/main/proposals", lock_dir=tmp_path / "locks")
    source = Source(written_by="flush", audience=PRIVATE, at="2026-03-14T10:00:00Z")
    waiting = await queue.propose(
        ProposedWrite(path="MEMORY.md", text="## New\n- Sell the hive.", source=source, is_append=True)
    )

    found = await overview_of(tmp_path)
    lines = overview_lines(found, START.date())

    assert (found.notes, found.logs, found.chat_notes, found.facts, found.reminders) == (7, 4, 1, 2, 1)
    assert [(each.path, each.lines) for each in found.topics] == [("MEMORY.md", 4), ("memory/garden.md", 2)]
    assert [(line.path, line.number, line.text) for line in found.learned] == [
        ("memory/2026-03-14.md", 1, "Ilse shares the mooring."),
        ("memory/2026-03-13.md", 3, "The scale showed 14 kg."),
    ]
    assert [(each.id, each.text) for each in found.waiting] == [(waiting, "Sell the hive.")]
    assert (found.unrecalled, found.older, found.recalled_since) == (("memory/2026-01-20.md",), 1, None)
    assert "  Yesterday  The scale showed 14 kg." in lines
    assert f"  {waiting}  MEMORY.md: Sell the hive." in lines
    assert max(map(len, lines)) <= 80
    assert "1 of 1" in lines[-2]


async def test_a_note_that_a_search_returned_counts_as_recalled(tmp_path: Path) -> None:
    """The transcripts say what the assistant has found; no counter is kept."""
    write_settings(tmp_path, SETTINGS)
    texts = {"memory/2026-01-20.md": "- The boat is Nautilus.\n", "memory/2026-01-21.md": "- Compost.\n"}
    notes(tmp_path, **texts)
    model = ScriptedModel(calls(("memory_search", {"query": "boat"})), says("It is Nautilus."))
    async with opened(tmp_path, model) as agent:
        await agent.respond(said("Which boat?"))

    assert (await overview_of(tmp_path)).unrecalled == ("memory/2026-01-21.md",)


async def test_only_what_may_be_wrong_now_contradicts(tmp_path: Path) -> None:
    """A page against a later log or another line; not an earlier log, a change, or another person."""
    write_settings(tmp_path, SETTINGS)
    day = START.date() - timedelta(days=30)
    notes(
        tmp_path,
        **{
            "MEMORY.md": "## Ann\n\n- Phone: 1\n\n## Ben\n\n- Phone: 2\n\n## Facts\n\n"
            "- Boat: Nautilus\n- ~~Car: Volvo~~\n- Car: Saab\n",
            f"memory/{day}.md": "- Cat: Miri\n- Boat: Argo\n",
            "memory/2026-03-14.md": "- Cat: Tom\n",
        },
    )

    found = (await overview_of(tmp_path)).contradictions

    assert [(each.thing, [line.text for line in each.lines]) for each in found] == [
        ("boat", ["Boat: Argo", "Boat: Nautilus"])
    ]
