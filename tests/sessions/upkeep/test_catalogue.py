"""The catalogue: every session is in it, can be named, looked at without a trace, and deleted for a while."""

from __future__ import annotations

from pathlib import Path

import pytest

from nacre.sessions.contracts.errors import SessionNotFound
from nacre.sessions.contracts.messages import Message
from nacre.sessions.index.index import SessionIndex
from nacre.sessions.index.record import SessionRecord
from nacre.sessions.journal.journal import Journal, ResultFiles, read_transcript, transcript_bytes
from nacre.sessions.stores.files import delete_session, last_message, move_aside, stored_sessions
from nacre.sessions.upkeep.stored_session import StoredSession, find_session
from tests.sessions.disk_steps import disk_steps, is_on_disk
from tests.sessions.talk import answer, counted_ids, said, ticking_clock, user

MAIN = "agent:main:main"
GROUP = "agent:main:telegram:group:7"


def index(folder: Path) -> SessionIndex:
    return SessionIndex(folder, now=ticking_clock())


async def begun(path: Path, session_id: str) -> Journal:
    """A new transcript of a session."""
    return await Journal.open(
        path, session_id=session_id, cwd=path.parent, now=ticking_clock(), new_id=counted_ids()
    )


async def talk(folder: Path, session_id: str, key: str, *texts: str) -> None:
    """A transcript that tells its key, with something said in it."""
    journal = await begun(folder / f"{session_id}.jsonl", session_id)
    await journal.append_custom("nacre.session", {"key": key, "chatKind": "direct", "private": True})
    for text in texts:
        await journal.append(user(text))
        await journal.append(answer("yes"))


async def names(sessions: SessionIndex, key: str, session_id: str, *earlier: str) -> None:
    """Makes a session the one that a key names now."""
    record = SessionRecord(session_id=session_id, updated_at_ms=5, previous_session_ids=earlier)
    await sessions.update(key, lambda _: record)


@pytest.fixture
async def folder(tmp_path: Path) -> Path:
    """A main session with an earlier one, a group, a transcript that no key names, one that is gone."""
    sessions = index(tmp_path)
    await names(sessions, MAIN, "aaaa-new", "aaaa-old")
    await names(sessions, GROUP, "bbbb-group")
    await names(sessions, "agent:main:gone", "dddd-gone")
    await talk(tmp_path, "aaaa-old", "agent:main:renamed", "first")
    await talk(tmp_path, "aaaa-new", MAIN, "second", "third")
    await talk(tmp_path, "bbbb-group", GROUP, "hello all")
    await talk(tmp_path, "cccc-loose", "agent:main:telegram:dm:9", "stranger")
    return tmp_path


async def test_every_session_is_listed(folder: Path) -> None:
    """What keys name now, what they named before, and transcripts that nothing names; each once."""
    found = await stored_sessions(index(folder))
    now = await stored_sessions(index(folder), with_earlier=False)

    told = {(item.key, item.session_id, item.is_current) for item in found}
    assert len(found) == 5
    assert told == {
        (MAIN, "aaaa-new", True),
        (MAIN, "aaaa-old", False),
        (GROUP, "bbbb-group", True),
        ("agent:main:telegram:dm:9", "cccc-loose", False),
        ("agent:main:gone", "dddd-gone", True),
    }
    assert {item.session_id for item in now} == {"aaaa-new", "bbbb-group", "dddd-gone"}
    assert [item.size_bytes for item in now if item.session_id == "dddd-gone"] == [None]


@pytest.mark.covers("A6-2", "A6-15")
async def test_the_latest_active_session_is_first(folder: Path) -> None:
    """What was said last counts; a line of the index that was written in the future is listed as well."""
    late = SessionRecord(session_id="bbbb-group", updated_at_ms=5, last_interaction_at_ms=99_000_000_000_000)
    await index(folder).update(GROUP, lambda _: late)

    found = await stored_sessions(index(folder), with_earlier=False)

    assert found[0].session_id == "bbbb-group"
    assert found[0].active_at_ms == 99_000_000_000_000


@pytest.mark.parametrize(
    ("name", "session_id"),
    [
        ("main", "aaaa-new"),
        ("agent:main:main", "aaaa-new"),
        (" MAIN ", "aaaa-new"),
        ("telegram:group:7", "bbbb-group"),
        ("aaaa-old", "aaaa-old"),
        ("AAAA-O", "aaaa-old"),
        ("cccc", "cccc-loose"),
        ("telegram:dm:9", "cccc-loose"),
    ],
)
async def test_a_session_is_found_by_what_people_write(folder: Path, name: str, session_id: str) -> None:
    """A key, with or without its agent, an id, or the beginning of an id."""
    found = find_session(await stored_sessions(index(folder)), name, agent_id="main")

    assert found.session_id == session_id


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("aaaa", "'aaaa' matches .*aaaa-.*Give more"),
        ("ccc", "There is no session 'ccc'"),
        ("", "There is no session ''"),
        ("telegram:dm:10", "There is no session"),
        ("a\0b", "There is no session"),
    ],
)
async def test_what_could_be_several_or_none_is_not_guessed(folder: Path, name: str, told: str) -> None:
    """A name that fits several sessions, or none, is answered by a sentence."""
    sessions = await stored_sessions(index(folder))

    with pytest.raises(SessionNotFound, match=told):
        find_session(sessions, name, agent_id="main")


@pytest.mark.covers("A6-16", "A6-17")
async def test_the_last_words_are_read_from_the_end(tmp_path: Path) -> None:
    """What a person said last, however long the transcript; nothing where nobody did."""
    await talk(tmp_path, "s", MAIN, "first", "x" * 70_000, "last")
    await talk(tmp_path, "empty", MAIN)

    assert last_message(tmp_path / "s.jsonl") == "last"
    assert last_message(tmp_path / "empty.jsonl") == ""
    assert last_message(tmp_path / "none.jsonl") == ""


@pytest.mark.covers("A6-17")
async def test_the_last_words_are_those_of_the_present_branch(tmp_path: Path) -> None:
    """What was said on a branch that was left does not stand for the session, unless it is all there is."""
    await talk(tmp_path, "s", MAIN, "first", "left again")
    journal = await begun(tmp_path / "s.jsonl", "s")
    words_again = [entry for entry in journal.tree.entries if isinstance(entry.body, Message)][-2]
    await journal.rewind(words_again.parent_id)
    assert last_message(tmp_path / "s.jsonl") == "first"

    await journal.rewind(None)
    assert last_message(tmp_path / "s.jsonl") == "left again"


async def test_looking_leaves_no_trace(folder: Path) -> None:
    """Reading a transcript, a torn one too, changes neither it nor its folder."""
    path = folder / "aaaa-new.jsonl"
    path.write_bytes(path.read_bytes() + b'{"type":"message","id":"zz","par')
    before = {file.name: file.read_bytes() for file in folder.iterdir()}

    transcript = await read_transcript(path, session_id="aaaa-new", now=ticking_clock())

    assert said(transcript.branch) == ["second", "yes", "third", "yes"]
    assert await transcript_bytes(path, session_id="aaaa-new") == path.read_bytes()
    assert {file.name: file.read_bytes() for file in folder.iterdir()} == before
    with pytest.raises(SessionNotFound, match="missing"):
        await read_transcript(folder / "dddd.jsonl", session_id="dddd", now=ticking_clock())


async def found_in(folder: Path, name: str) -> StoredSession:
    return find_session(await stored_sessions(index(folder)), name, agent_id="main")


async def test_a_deleted_session_can_be_brought_back(folder: Path) -> None:
    """It leaves the index and the list, byte for byte renamed; renamed back it is listed again."""
    path = folder / "aaaa-old.jsonl"
    data = path.read_bytes()

    aside = await delete_session(index(folder), await found_in(folder, "aaaa-old"), now=ticking_clock())

    assert aside is not None
    assert aside.name == "aaaa-old.jsonl.deleted.2026-03-01T09-00-00.000Z"
    assert aside.read_bytes() == data
    assert not path.exists()
    kept = await index(folder).get(MAIN)
    assert kept is not None
    assert (kept.session_id, kept.previous_session_ids) == ("aaaa-new", ())
    with pytest.raises(SessionNotFound):
        await found_in(folder, "aaaa-old")
    aside.rename(path)
    assert (await found_in(folder, "aaaa-old")).key == "agent:main:renamed"


async def test_deleting_a_keys_session_leaves_its_earlier_ones(folder: Path) -> None:
    """The key names nothing then; what it named before is still there by its id."""
    await delete_session(index(folder), await found_in(folder, "main"), now=ticking_clock())

    assert await index(folder).get(MAIN) is None
    assert (await found_in(folder, "aaaa-old")).size_bytes
    assert await delete_session(index(folder), await found_in(folder, "dddd"), now=ticking_clock()) is None
    assert set(await index(folder).all()) == {GROUP}


async def test_nothing_that_was_moved_aside_is_overwritten(tmp_path: Path) -> None:
    """Two transcripts of one name, moved aside in the same millisecond, are two files."""
    moment = ticking_clock()()
    asides = []
    for number in range(3):
        (tmp_path / "s.jsonl").write_text(str(number))
        asides.append(move_aside(tmp_path / "s.jsonl", now=lambda: moment))

    assert [aside.read_text() for aside in asides if aside is not None] == ["0", "1", "2"]
    assert move_aside(tmp_path / "s.jsonl", now=lambda: moment) is None


async def test_whole_results_go_with_their_transcript(tmp_path: Path) -> None:
    """A deleted session leaves no result where a tool finds it, and both come back by a rename."""
    moment = ticking_clock()()
    transcript = tmp_path / "s.jsonl"
    transcript.touch()
    await ResultFiles(transcript).keep("r1", "all of it")

    aside = move_aside(transcript, now=lambda: moment)

    assert await ResultFiles(transcript).read("r1") is None
    assert aside is not None
    stamp = aside.name.removeprefix("s.jsonl")
    assert (tmp_path / f"s.results{stamp}" / "r1.txt").read_text() == "all of it"


async def test_a_transcript_under_another_name_has_the_id_that_it_tells(tmp_path: Path) -> None:
    """One that was brought along and says nothing of a key is listed by its own id, with its file."""
    await (await begun(tmp_path / "odd-name.jsonl", "Eeee")).append(user("hi"))
    found = await stored_sessions(index(tmp_path))

    assert [(item.key, item.session_id) for item in found] == [("recovered:eeee", "Eeee")]
    assert found[0].place == str(tmp_path / "odd-name.jsonl")


async def test_a_transcript_is_moved_aside_on_the_disk_too(tmp_path: Path) -> None:
    """Its new name lasts through a power cut."""
    await talk(tmp_path, "s", MAIN, "hello")
    with disk_steps(tmp_path) as steps:
        aside = move_aside(tmp_path / "s.jsonl", now=ticking_clock())
    assert aside is not None
    assert is_on_disk(steps, aside.name)
