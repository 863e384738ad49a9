"""`nacre memory forget`: shown first, then gone from notes, index, transcripts and history."""

from __future__ import annotations

import asyncio
import base64
import gzip
import json
import shutil
import sqlite3
import subprocess
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from nacre.bridges.contracts.bridge import Place
from nacre.extensions.postgres.storage import PostgresLedgerPlace
from nacre.memory.workspace.git import run_git
from nacre.memory.workspace.history.repository import Repository
from nacre.runtime.contracts.inbound import Attachment
from nacre.runtime.ledger.file_ledger import ledger_file
from nacre.runtime.ledger.ledger import LedgerPlace
from nacre.runtime.ledger.moving import COLUMNS, Contents
from nacre.runtime.ledger.records import StoredJob, inbound_to_json
from nacre.runtime.models.scripted import Clock, CountingIds, ScriptedModel, says
from tests.cli.program import run_nacre
from tests.extensions.importers import exports
from tests.faults.apart.isolation import tree_bytes
from tests.memory.workspace.history.owners_git import owners_history
from tests.runtime.agents import START, TODAY, opened, said, write_settings

NO_MODEL = {"agents": {"defaults": {"memorySearch": {"provider": "none"}}}}
NOTES = "# Notes\n\n- The boat is called Halcyon.\n- Lisa plays the cello.\n- ok\n"


def _git_dir(state: Path) -> Path:
    return Repository(state / "workspace", state_dir=state).git_dir


async def _talked(state: Path, settings: dict[str, Any] = NO_MODEL) -> None:
    write_settings(state, settings)
    async with opened(state, None) as agent:
        await agent.ask("Remember that my boat is called Halcyon.")
        await agent.ask("Remember that Lisa plays the cello.")
    memory = state / "workspace/MEMORY.md"
    memory.write_text(NOTES, encoding="utf-8")


async def test_words_are_forgotten_everywhere(tmp_path: Path) -> None:
    """A dry run changes nothing; then no file of the state folder has the word, and all else is there."""
    state = tmp_path / ".nacre"
    await _talked(state, {})
    run_nacre(tmp_path, "memory", "index")
    (transcript,) = (state / "agents/main/sessions").glob("*.jsonl")
    before = transcript.read_bytes()
    memory = state / "workspace/MEMORY.md"

    shown = run_nacre(tmp_path, "memory", "forget", "halcyon BOAT", "--transcripts", "--git-history")
    assert (memory.read_text(), transcript.read_bytes()) == (NOTES, before)
    done = run_nacre(tmp_path, "memory", "forget", "halcyon boat", "--transcripts", "--git-history", "--yes")

    assert "-- The boat is called Halcyon." in shown.stdout
    assert "--yes removes this" in shown.stderr
    assert done.returncode == 0, done.stderr
    assert "Out of reach: backups" in done.stdout
    assert "Removed 2 lines from 2 notes" in done.stdout
    assert memory.read_text() == "# Notes\n\n- Lisa plays the cello.\n- ok\n"
    assert len(transcript.read_bytes()) == len(before)
    after = [json.loads(line) for line in transcript.read_text().splitlines()]
    assert [each["id"] for each in after] == [json.loads(line)["id"] for line in before.splitlines()]
    has_it = [path for path in state.rglob("*") if path.is_file() and b"Halcyon" in path.read_bytes()]
    assert has_it == [], done.stdout + done.stderr
    assert "Searched everything within reach: nothing remains." in done.stdout
    assert "cello" in run_nacre(tmp_path, "memory", "search", "cello").stdout
    async with opened(state, None) as agent:  # the session goes on
        reply = await agent.ask("What does Lisa play?")
    assert reply is not None


@pytest.mark.parametrize("encoding", ["latin-1", "utf-16"])
async def test_words_are_forgotten_in_notes_of_every_encoding(tmp_path: Path, encoding: str) -> None:
    """A line of an old Windows note is found by its accents and removed, and the others keep their bytes."""
    state = tmp_path / ".nacre"
    await _talked(state)
    note = state / "workspace" / "memory" / "north.md"
    kept = "Größe: neun\n"
    note.write_bytes(f"Das Café in Köln\n{kept}".encode(encoding))
    found = run_nacre(tmp_path, "search", "Köln")

    done = run_nacre(tmp_path, "memory", "forget", "Köln", "--git-history", "--yes")

    assert "Das Café in Köln" in found.stdout
    assert done.returncode == 0, done.stderr
    assert note.read_bytes() == kept.encode(encoding)
    assert "nothing remains" in done.stdout


@pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")
async def test_a_history_forgets_what_was_named_alone(tmp_path: Path) -> None:
    """One line of one note goes from all commits; the same line elsewhere stays, and the receipt says so."""
    state = tmp_path / ".nacre"
    await _talked(state)
    workspace = state / "workspace"
    run_nacre(tmp_path, "memory", "undo")  # commits what is there
    memory = (workspace / "MEMORY.md").read_text()
    commits = len(run_nacre(tmp_path, "memory", "log").stdout.splitlines())
    number = (workspace / TODAY).read_text().splitlines().index("- my boat is called Halcyon.") + 1

    done = run_nacre(tmp_path, "memory", "forget", f"{TODAY}#L{number}", "--git-history", "--yes", "--json")

    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert (told["applied"], told["notes"][0]["lines"]) == (True, ["- my boat is called Halcyon."])
    assert any("These transcripts have it" in each for each in told["left"])
    assert (workspace / "MEMORY.md").read_text() == memory
    history = run_git(_git_dir(state), "log", "-p", "--all").decode()
    assert "my boat is called Halcyon" not in history
    assert "The boat is called Halcyon." in history
    log = run_nacre(tmp_path, "memory", "log").stdout.splitlines()
    assert len(log) == commits + 1


@pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")
async def test_what_the_owners_repository_still_has_is_named(tmp_path: Path) -> None:
    """The `.git` of the owner stays as it was, and is named."""
    state = tmp_path / ".nacre"
    owners_history(state / "workspace")
    before = tree_bytes(state / "workspace/.git")
    write_settings(state, NO_MODEL)

    done = run_nacre(tmp_path, "memory", "forget", "old boat halcyon", "--git-history", "--yes", "--json")

    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    (left,) = told["left"]
    assert "workspace/.git" in left
    assert tree_bytes(state / "workspace/.git") == before


async def test_nothing_goes_that_was_not_named(tmp_path: Path) -> None:
    """Words that stand nowhere, no words, a note that is not there, and conversations that go on."""
    state = tmp_path / ".nacre"
    await _talked(state)

    nowhere = run_nacre(tmp_path, "memory", "forget", "giraffe", "--yes")
    empty = run_nacre(tmp_path, "memory", "forget", "  ?! ", "--yes")
    missing = run_nacre(tmp_path, "memory", "forget", "memory/1999-01-01.md", "--yes")
    elsewhere = run_nacre(tmp_path, "memory", "forget", "remember lisa", "--yes")
    as_json = run_nacre(tmp_path, "memory", "forget", "remember lisa", "--yes", "--json")

    assert (nowhere.returncode, "No line of the notes has that" in nowhere.stderr) == (1, True)
    assert (empty.returncode, "Name words to forget" in empty.stderr) == (2, True)
    assert (missing.returncode, "There is no note" in missing.stderr) == (1, True)
    assert (elsewhere.returncode, "These transcripts have it" in elsewhere.stderr) == (1, True)
    assert (as_json.returncode, "These transcripts have it" in as_json.stdout) == (1, True)
    assert (state / "workspace/MEMORY.md").read_text() == NOTES


@pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")
async def test_repositories_around_and_below_are_named(tmp_path: Path) -> None:
    """Somebody keeps the whole state folder in git, or has a submodule: such a repository may have it."""
    await _talked(tmp_path / ".nacre")
    nested = tmp_path / ".nacre/workspace/memory/other"
    nested.mkdir()
    for folder in (tmp_path, tmp_path / ".nacre", nested):
        run_git(folder / ".git", "init", "-q")

    done = run_nacre(tmp_path, "memory", "forget", "halcyon boat", "--yes", "--transcripts", "--git-history")

    assert done.returncode == 0, done.stderr
    named = done.stderr.partition("were not searched: ")[2]
    for folder in (tmp_path, tmp_path / ".nacre", nested):
        assert str(folder / ".git") in named
    assert "--git-history removes it" not in done.stderr


def test_the_name_that_a_session_gave_its_note_is_found(tmp_path: Path) -> None:
    """It was written without accents."""
    write_settings(tmp_path / ".nacre", NO_MODEL)
    note = tmp_path / ".nacre/workspace/memory/2026-01-20-mullerhutte.md"
    note.parent.mkdir(parents=True)
    note.write_text("- Die Müllerhütte ist offen.\n", encoding="utf-8")

    done = run_nacre(tmp_path, "memory", "forget", "Müllerhütte", "--yes")

    assert "Removed 1 line from 1 note, " in done.stdout
    assert f"These file names have it: {note}." in done.stderr


async def test_what_is_left_is_named_wherever_it_lies(tmp_path: Path) -> None:
    """Rows of a ledger, names of notes, labels, escapes, freed pages, commits: each is found and named."""
    state = tmp_path / ".nacre"
    await _talked(state)
    workspace = state / "workspace"
    (workspace / "memory/2026-01-20_halcyon-boat.md").write_text("- Bought rope.\n", encoding="utf-8")
    run_nacre(tmp_path, "memory", "undo")  # commits what is there
    (state / "bridges").mkdir(exist_ok=True)
    with closing(sqlite3.connect(state / "bridges/odd.sqlite")) as ledger:
        ledger.execute("CREATE TABLE inbound (sender TEXT, message TEXT)")
        ledger.execute(
            "INSERT INTO inbound VALUES (?, ?)", ("x" * 5000, '{"text": "our b\\u006fat Halcyon"}')
        )
        ledger.commit()
    with closing(sqlite3.connect(state / "bridges/freed.sqlite")) as ledger:
        ledger.execute("CREATE TABLE inbound (sender TEXT, message TEXT)")
        ledger.execute("INSERT INTO inbound VALUES ('anna', 'a boat named Halcyon')")
        ledger.commit()
        ledger.execute("PRAGMA secure_delete = OFF")
        ledger.execute("DELETE FROM inbound")
        ledger.commit()
    (state / "wide.txt").write_text("the boat Halcyon", encoding="utf-16")
    (state / "escaped.jsonl").write_text('{"a": {"b": "Halcy\\u006fn b\\u006fat"}}\n', encoding="utf-8")
    (state / "packed.gz").write_bytes(gzip.compress(b"x"))
    sessions = state / "agents/main/sessions/sessions.json"
    listed = json.loads(sessions.read_text())
    listed["agent:main:main"]["label"] = "Halcyon, the boat"
    sessions.write_text(json.dumps(listed))

    done = run_nacre(tmp_path, "memory", "forget", "halcyon boat", "--yes", "--transcripts", "--json")

    told = json.loads(done.stdout)["left"]
    files = next(each for each in told if each.startswith("These files have it"))
    for name in ("odd.sqlite", "freed.sqlite", "wide.txt", "escaped.jsonl", "sessions.json"):
        assert name in files, (name, told)
    names = next(each for each in told if each.startswith("These file names have it"))
    assert "2026-01-20_halcyon-boat.md" in names
    assert any("not searched" in each and "packed.gz" in each for each in told)
    assert any("trees" in each and "halcyon-boat.md" in each for each in told)


async def _filled(place: LedgerPlace) -> None:
    """Two messages that wait, one of them with a file that says it, two answers and two jobs."""
    clock = Clock(START)
    ledger = await place.open(now=clock, new_id=CountingIds())
    try:
        for number, (text, data) in enumerate(
            (("Our boat is Halcyon.", b""), ("See.", b"The boat: Halcyon"))
        ):
            file = Attachment(name="a.txt", mime_type="text/plain", data=data)
            inbound = said(text, channel="line", chat_id="n", sender_id="n", message_id=f"{number}")
            inbound = replace(inbound, attachments=(file,) * bool(data))
            await ledger.receive(inbound, "agent:main:n", agent_id="main", cursor=str(number))
        there = Place(channel="line", account="default", chat_id="n")
        await ledger.outbox.put(there, ["The boat is called Halcyon.", "Lisa plays."])
        for job_id, text in (("a", "Paint the boat Halcyon."), ("b", "Call Lisa.")):
            job = StoredJob(job_id, "main", inbound_to_json(said("")), text, "", 1_800_000_000_000)
            await ledger.jobs.add(job, made_ms=1, most=9)
    finally:
        await ledger.close()


def test_what_waits_in_the_ledger_goes(tmp_path: Path) -> None:
    """Messages, answers and jobs that say it, shown first; all else stays, and no byte of it is left."""
    state = tmp_path / ".nacre"
    asyncio.run(_talked(state))
    asyncio.run(_filled(ledger_file(state)))
    words = ("memory", "forget", "halcyon boat", "--transcripts")
    shown = run_nacre(tmp_path, *words)
    done = run_nacre(tmp_path, *words, "--yes")
    assert "In the ledger of the channels: 2 messages, 1 answers, 1 jobs." in shown.stdout
    assert done.returncode == 0, done.stderr
    _check_ledger(ledger_file(state))
    assert b"Halcyon" not in (state / "bridges/ledger.sqlite").read_bytes()
    assert "ledger" not in done.stderr


async def test_a_ledger_that_is_served_is_named_and_left_alone(tmp_path: Path) -> None:
    """What a running program has in its hands stays, and the search says so."""
    state = tmp_path / ".nacre"
    await _talked(state)
    await _filled(ledger_file(state))
    ledger = await ledger_file(state).open(now=Clock(START), new_id=CountingIds("b-"))
    try:
        words = ("memory", "forget", "halcyon boat", "--transcripts", "--yes")
        done = await asyncio.to_thread(run_nacre, tmp_path, *words)
    finally:
        await ledger.close()
    assert done.returncode == 0, done.stderr
    assert "ledger.sqlite" in done.stderr
    assert "Stop `nacre serve`" in " ".join(done.stderr.split())


def _check_ledger(place: LedgerPlace) -> None:
    async def contents() -> Contents:
        async with place.movable() as ledger:
            return await ledger.contents()

    left = asyncio.run(contents())
    rows = {
        name: [dict(zip(COLUMNS[name], row, strict=True)) for row in left.rows[name]]
        for name in ("inbound", "outbound", "jobs")
    }
    assert [(row["state"], row["body"], row["message_id"]) for row in rows["inbound"]] == [
        ("dropped", None, "0"),
        ("dropped", None, "1"),
    ]
    assert [(row["state"], row["text"]) for row in rows["outbound"]] == [
        ("failed", ""),
        ("pending", "Lisa plays."),
    ]
    assert [row["text"] for row in rows["jobs"]] == ["Call Lisa."]


@pytest.mark.postgres
def test_what_waits_in_a_database_goes(tmp_path: Path, database_url: str) -> None:
    """Rows of the ledger, and turns that no worker has begun; a job of another program is named."""
    import psycopg

    state = tmp_path / ".nacre"
    write_settings(state, NO_MODEL)
    place = PostgresLedgerPlace(agent="main", file=ledger_file(state), url=database_url)
    words = ("memory", "forget", "halcyon boat", "--transcripts")
    assert run_nacre(tmp_path, "send", "Hello.", NACRE_DATABASE_URL=database_url).returncode == 0
    asyncio.run(_filled(place))
    with psycopg.connect(database_url, autocommit=True) as database:
        database.execute(WAITING_TURNS)
        shown = run_nacre(tmp_path, *words, NACRE_DATABASE_URL=database_url)
        assert "2 messages, 1 answers, 1 jobs, 1 waiting turns." in shown.stdout
        done = run_nacre(tmp_path, *words, "--yes", NACRE_DATABASE_URL=database_url)
        assert done.returncode == 0, done.stderr
        assert database.execute("SELECT id FROM turns").fetchall() == [("b",)]
        assert "Rows of these tables have it: procrastinate_jobs (1)." in done.stderr
    _check_ledger(place)


WAITING_TURNS = """
INSERT INTO turns (agent, id, session_key, inbound, is_redelivered) VALUES
    ('main', 'a', 'k', '{"text": "Where is the boat Halcyon?"}', FALSE),
    ('main', 'b', 'k', '{"text": "Where is Lisa?"}', FALSE);
CREATE TABLE IF NOT EXISTS procrastinate_jobs (id BIGINT, args JSONB);
INSERT INTO procrastinate_jobs VALUES (1, '{"text": "the boat Halcyon"}');
"""


async def test_words_in_base64_and_in_an_index_of_words_are_found(tmp_path: Path) -> None:
    """A stored mail with a file, and a full-text index whose rows are gone."""
    state = tmp_path / ".nacre"
    await _talked(state)
    packed = base64.encodebytes(b"Dear Ann,\n" * 9 + b"the boat is Halcyon.\n").decode()
    (state / "stored.eml").write_text(f"Content-Transfer-Encoding: base64\n\n{packed}")
    (state / "token.txt").write_text(base64.urlsafe_b64encode(b"boat Halcyon").decode().rstrip("="))
    with closing(sqlite3.connect(state / "words.sqlite")) as database:
        database.execute("CREATE VIRTUAL TABLE said USING fts5(text, content='')")
        rows = [("a boat in a harbor",), ("the boat halcyons",), ("the boat is halcyon",)]
        database.executemany("INSERT INTO said (text) VALUES (?)", rows)
        database.commit()

    done = run_nacre(tmp_path, "memory", "forget", "halcyon boat", "--yes", "--transcripts", "--json")

    files = next(each for each in json.loads(done.stdout)["left"] if each.startswith("These files have it"))
    for name in ("stored.eml", "token.txt", "words.sqlite"):
        assert name in files


@pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")
async def test_names_and_messages_in_the_owners_repository_are_named(tmp_path: Path) -> None:
    """A file's name that only an old tree has, and the message of a commit."""
    state = tmp_path / ".nacre"
    await _talked(state)
    workspace = state / "workspace"

    def git(*arguments: str) -> None:
        who = ("-c", "user.name=Ann", "-c", "user.email=ann@example.org")
        subprocess.run(["git", *who, *arguments], cwd=workspace, check=True, capture_output=True)

    git("init", "-q")
    (workspace / "boat_halcyon.txt").write_text("x")
    git("add", "boat_halcyon.txt")
    git("commit", "-qm", "Add it")
    git("rm", "-q", "boat_halcyon.txt")
    git("commit", "-qm", "The boat Halcyon is sold")

    done = run_nacre(tmp_path, "memory", "forget", "halcyon boat", "--yes", "--json")

    told = next(each for each in json.loads(done.stdout)["left"] if "Your repository" in each)
    assert "names of files in its trees (boat_halcyon.txt)" in told
    assert "messages of commits or tags" in told


async def test_what_is_forgotten_is_not_sent_again(tmp_path: Path) -> None:
    """No request has the words, in a session that stays open and in one that is opened later."""
    state = tmp_path / ".nacre"
    write_settings(state, NO_MODEL)
    model, later = (ScriptedModel(*(says("Noted.") for _ in range(2))) for _ in range(2))
    async with opened(state, model) as agent:
        (agent.workspace / "MEMORY.md").write_text(NOTES, encoding="utf-8")
        await agent.ask("The boat is called Halcyon, by the way.")
        done = await asyncio.to_thread(
            run_nacre, tmp_path, "memory", "forget", "halcyon boat", "--transcripts", "--yes"
        )
        assert done.returncode == 0, done.stderr
        await agent.ask("And what does Lisa play?")
    async with opened(state, later, ids="later-") as agent:
        await agent.ask("And now?")

    assert "Halcyon" in repr(model.requests[0])
    assert "Halcyon" not in repr(model.requests[1])
    assert "Halcyon" not in repr(later.requests[0])
    assert "cello" in repr(later.requests[0])


@pytest.mark.postgres
def test_a_database_forgets_as_well(tmp_path: Path, database_url: str) -> None:
    """Notes, conversations, also those that were deleted, whole results, index and ended turns alone.

    What is not the command's to change is found and named, until it is gone.
    """
    import psycopg

    state = tmp_path / ".nacre"
    write_settings(state, {})
    words = ("memory", "forget", "halcyon boat", "--transcripts")

    def nacre(*arguments: str) -> str:
        done = run_nacre(tmp_path, *arguments, NACRE_DATABASE_URL=database_url)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout + done.stderr

    nacre("send", "Remember that my boat is called Halcyon.")
    nacre("send", "Remember that Lisa plays the cello.")
    nacre("memory", "index")
    with psycopg.connect(database_url, autocommit=True) as database:
        database.execute(ROWS)
        before = database.execute(LINES).fetchall()

        shown = nacre(*words)
        assert database.execute(LINES).fetchall() == before
        done = nacre(*words, "--yes")

        assert "lines with these words become [forgotten]" in shown
        assert "--yes removes this" in shown
        assert "Rows of these tables have it: ledger_outbound (1)." in done
        assert "its write-ahead log" in done
        after = database.execute(LINES).fetchall()
        assert [(*place, len(line)) for *place, line in after] == [
            (*place, len(line)) for *place, line in before
        ]
        assert b"Halcyon" not in b"".join(line for *_, line in after)
        assert b"cello" in b"".join(line for *_, line in after)
        for query in (
            "SELECT body FROM documents",
            "SELECT body FROM whole_results",
            "SELECT text FROM memory_chunks",
        ):
            assert "Halcyon" not in str(database.execute(query).fetchall()), query
        assert database.execute("SELECT id FROM turns").fetchall() == [("b",)]
        database.execute("DELETE FROM ledger_outbound")
        again = run_nacre(tmp_path, *words, NACRE_DATABASE_URL=database_url)
        assert again.stderr.strip() == "No line of the notes has that."
    assert "cello" in nacre("memory", "search", "cello")
    assert "cello" in nacre("sessions", "show", "main")


LINES = "SELECT agent, transcript, number, line FROM transcript_lines ORDER BY 1, 2, 3"
ROWS = """
INSERT INTO transcripts (agent, name, session_id, lines, size_bytes, begun_at, grown_at, aside_at)
    SELECT agent, name || '.deleted.1', session_id, lines, size_bytes, begun_at, grown_at, now()
    FROM transcripts;
INSERT INTO transcript_lines (agent, transcript, number, line)
    SELECT agent, (SELECT id FROM transcripts WHERE aside_at IS NOT NULL), number, line FROM transcript_lines;
INSERT INTO turns (agent, id, session_key, inbound, is_redelivered, state, outcome) VALUES
    ('main', 'a', 'k', '', FALSE, 'done', '{"kind": "reply", "text": "The boat is Halcyon."}'),
    ('main', 'b', 'k', '', FALSE, 'done', '{"kind": "reply", "text": "Lisa plays."}');
INSERT INTO whole_results (agent, transcript, name, body)
    SELECT agent, id, 'whole', convert_to(E'the boat\\nHalcyon boat\\n', 'UTF8') FROM transcripts;
INSERT INTO ledger_outbound
    (agent, turn, channel, account, chat_id, thread_id, answers, text, state, was_draft, asker)
    VALUES ('main', 0, 'line', 'a', 'c', '', '', 'The boat is Halcyon.', 'sent', FALSE, '');
"""


async def test_the_title_of_a_conversation_is_forgotten(tmp_path: Path) -> None:
    """An imported conversation has one, which may be the words that are to go."""
    state = tmp_path / ".nacre"
    await _talked(state, {})
    (transcript,) = (state / "agents/main/sessions").glob("*.jsonl")
    info = {"type": "session_info", "id": "t1", "parentId": None, "timestamp": "2026-01-01T00:00:00.000Z"}
    with transcript.open("a", encoding="utf-8") as file:
        file.write(json.dumps(info | {"name": "The Halcyon boat"}) + "\n")

    done = run_nacre(tmp_path, "memory", "forget", "halcyon boat", "--transcripts", "--git-history", "--yes")

    assert done.returncode == 0, done.stderr
    assert b"Halcyon" not in transcript.read_bytes()
    assert json.loads(transcript.read_text().splitlines()[-1])["id"] == "t1"


async def test_what_was_forgotten_is_not_imported_again(tmp_path: Path) -> None:
    """An old export still has it; nor does a tool of another program write it."""
    state = tmp_path / ".nacre"
    await _talked(state)
    run_nacre(tmp_path, "memory", "forget", "halcyon", "--yes")
    export = exports.claude(tmp_path / "export")
    memories = [{"conversations_memory": NOTES, "project_memories": {}, "account_uuid": "u"}]
    (export / "memories.json").write_text(json.dumps(memories))

    ended = run_nacre(tmp_path, "import", "claude", str(export))
    assert ended.returncode == 0, ended.stderr
    imported = (state / "workspace/memory/imports/claude/memories.md").read_text()
    assert "Lisa plays the cello." in imported
    assert "Halcyon" not in imported
    assert b"Halcyon" not in (state / "workspace/.sources/rejected.jsonl").read_bytes()
