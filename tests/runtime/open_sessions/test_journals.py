"""A session's transcript is read once, and then only on."""

from __future__ import annotations

from pathlib import Path

from nacre.runtime.models.scripted import Clock, CountingIds, ScriptedModel, says
from nacre.runtime.open_sessions.open_session import MAX_CACHED_BYTES, Journals
from nacre.sessions.contracts.messages import message_text, user_message
from nacre.sessions.index.record import SessionRecord
from nacre.sessions.stores.store import Transcript
from tests.runtime.agents import opened, said, transcript_file
from tests.sessions.stores.places import file_store


def journals(tmp_path: Path, prefix: str = "") -> Journals:
    return Journals(file_store(tmp_path, now=Clock(), new_id=CountingIds(prefix)))


def line(session_id: str) -> SessionRecord:
    return SessionRecord(session_id=session_id, updated_at_ms=1)


async def test_a_transcript_is_kept_between_turns_and_reads_on(tmp_path: Path) -> None:
    """The same journal comes back, with what another program appended meanwhile."""
    mine, theirs = journals(tmp_path), journals(tmp_path, "other-")
    journal = await mine.open(line("a"))
    await (await theirs.open(line("a"))).append(user_message("hi", timestamp_ms=1))

    again = await mine.open(line("a"))

    assert again is journal
    assert len(again.tree.branch()) == 1


async def test_many_small_transcripts_are_kept(tmp_path: Path) -> None:
    """However many chats there are: what bounds them is their size."""
    kept = journals(tmp_path)
    opened = [await kept.open(line(str(number))) for number in range(150)]
    again = [await kept.open(line(str(number))) for number in range(150)]
    assert all(journal is first for journal, first in zip(again, opened, strict=True))


async def test_the_transcript_that_was_used_longest_ago_goes_first(tmp_path: Path) -> None:
    """Three that are too large together: the one in the middle was used again and stays."""
    kept = journals(tmp_path)

    async def large(name: str) -> Transcript:
        journal = await kept.open(line(name))
        await journal.append(user_message("x" * (MAX_CACHED_BYTES * 2 // 5), timestamp_ms=1))
        return await kept.open(line(name))

    first, second = await large("a"), await large("b")
    assert await kept.open(line("a")) is first
    await large("c")
    assert await kept.open(line("a")) is first
    assert await kept.open(line("b")) is not second


async def test_long_transcripts_make_room_for_each_other(tmp_path: Path) -> None:
    """Of transcripts that are large together only the one in use stays in memory."""
    kept = journals(tmp_path)
    first = await kept.open(line("0"))
    await first.append(user_message("x" * (MAX_CACHED_BYTES // 2), timestamp_ms=1))
    assert await kept.open(line("0")) is first
    second = await kept.open(line("1"))
    await second.append(user_message("x" * (MAX_CACHED_BYTES // 2), timestamp_ms=1))
    assert await kept.open(line("1")) is second
    assert await kept.open(line("0")) is not first


async def test_a_deleted_transcript_begins_anew(tmp_path: Path) -> None:
    """What is gone is not answered from memory."""
    kept = journals(tmp_path)
    path = tmp_path / "a.jsonl"
    await (await kept.open(line("a"))).append(user_message("hi", timestamp_ms=1))
    path.unlink()
    assert (await kept.open(line("a"))).tree.branch() == ()


async def test_two_agents_on_one_session_see_each_others_words(tmp_path: Path) -> None:
    """An agent that has the transcript in memory goes on from what another process wrote."""
    model = ScriptedModel(says("one"), says("three"))
    async with opened(tmp_path, model) as agent:
        await agent.respond(said("first"))
        async with opened(tmp_path, ScriptedModel(says("two")), ids="other-") as other:
            await other.respond(said("second"))
        await agent.respond(said("third"))

    texts = [message_text(message) for message in model.requests[-1].messages]
    assert texts == ["first", "one", "second", "two", "third"]
    assert transcript_file(tmp_path).read_bytes().endswith(b"\n")
