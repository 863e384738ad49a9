"""`nacre sessions …`: conversations listed, shown, exported and deleted from a shell."""

from __future__ import annotations

import asyncio
import json
import re
from pathlib import Path

import pytest

from nacre.runtime.models.scripted import ScriptedModel, calls, says
from nacre.runtime.open_sessions.routing import SessionLocks
from nacre.sessions.disk.durable import TurnLockFiles
from tests.cli.program import Terminal, run_here, run_nacre
from tests.runtime.agents import opened, said, user_texts, write_settings

GROUP = {"chat_kind": "group", "channel": "telegram", "chat_id": "7", "chat_name": "Rowing club"}


async def conversations(state_dir: Path) -> None:
    """Two sessions of the main key, the later with a tool call, and a group."""
    model = ScriptedModel(
        says("Halcyon, noted."),
        says("NO_REPLY", purpose="flush"),
        calls(("list", {"path": "."})),
        says("Nothing but ```notes```."),
        says("Hello, all."),
    )
    write_settings(state_dir, {"hooks": {"internal": {"enabled": False}}})
    async with opened(state_dir, model) as agent:
        await agent.respond(said("My boat is called Halcyon."))
        await agent.respond(said("/new"))
        await agent.respond(said("What files are there?"))
        await agent.respond(said("Hello", **GROUP))


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A home in which things were said."""
    asyncio.run(conversations(tmp_path / ".nacre"))
    return tmp_path


def folder(home: Path) -> Path:
    return home / ".nacre" / "agents" / "main" / "sessions"


def test_a_narrow_screen_cuts_the_table(home: Path) -> None:
    """Each session keeps its one line, however many columns there are."""
    with Terminal(home, "sessions", "list", columns=44) as terminal:
        assert terminal.exit_code() == 0

    wide = run_nacre(home, "sessions", "list").stdout.splitlines()
    shown = terminal.shown.splitlines()
    assert [line[:30] for line in shown] == [line[:30] for line in wide]
    column = wide[0].index("ACTIVE")
    assert all(line[column - 2 : column] == "  " and line[column] != " " for line in wide)
    assert max(map(len, shown)) <= 44 < max(map(len, wide))


@pytest.mark.covers("A6-18")
def test_sessions_are_listed(home: Path) -> None:
    """The table names what can be gone on with; --all and --json tell the rest."""
    table = run_nacre(home, "sessions", "list").stdout.splitlines()
    told = json.loads(run_here(home, "sessions", "list", "--all", "--json").stdout)

    assert table[0].split() == ["SESSION", "ID", "ACTIVE", "CONTEXT", "LAST", "SAID"]
    assert len(table) == 3
    assert any(line.startswith("telegram:group:7 (Rowing club)") for line in table)
    assert any(line.startswith("main ") and line.endswith("What files are there?") for line in table)
    assert told["count"] == 3
    assert told["path"] == str(folder(home) / "sessions.json")
    kinds = {(item["key"], item["kind"], item["current"]) for item in told["sessions"]}
    assert kinds == {
        ("agent:main:main", "main", True),
        ("agent:main:main", "main", False),
        ("agent:main:telegram:group:7", "group", True),
    }


@pytest.mark.covers("A6-18")
def test_a_session_is_shown(home: Path) -> None:
    """Where it stands, and what was said last, tools in a line each; --last and --json as asked."""
    shown = run_here(home, "sessions", "show", "main").stdout
    told = json.loads(run_here(home, "sessions", "show", "main", "--last", "1", "--json").stdout)

    assert "Key:           agent:main:main\n" in shown
    assert "History:       4 messages\n" in shown
    assert "] User: What files are there?\n" in shown
    assert '  → list {"path": "."}\n' in shown
    assert shown.endswith("] Assistant: Nothing but ```notes```.\n")
    assert (told["kind"], told["messageCount"], told["current"]) == ("main", 4, True)
    assert [message["role"] for message in told["messages"]] == ["assistant"]
    assert told["messages"][0]["content"] == [{"type": "text", "text": "Nothing but ```notes```."}]


@pytest.mark.covers("ATT-15")
def test_an_export_through_a_pipe_cannot_drive_the_terminal(home: Path) -> None:
    """What was said stands in a file as it was; on standard output it is a sign or an escape."""
    wild = "a\x1b[2J\x1b]52;c;eA==\x07b\x00c\x9b31md\u202ee\u2066f"
    assert run_here(home, "send", wild).returncode == 0
    forms = {
        form: run_here(home, "sessions", "export", "main", "--format", form)
        for form in ("markdown", "json", "jsonl")
    }
    file = home / "talk.md"
    run_here(home, "sessions", "export", "main", "-o", str(file))

    for ended in forms.values():
        assert ended.returncode == 0
        assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069]", ended.stdout)
    assert "a␛[2J␛]52;c;eA==␇b␀c" in forms["markdown"].stdout
    assert json.dumps(wild)[1:-1] in json.dumps(json.loads(forms["json"].stdout))
    lines = [json.loads(line) for line in forms["jsonl"].stdout.splitlines()]
    assert json.dumps(wild)[1:-1] in json.dumps(lines)
    assert wild in file.read_text()


def test_a_session_is_exported(home: Path) -> None:
    """Markdown to read, JSON to process, JSONL as it is; a file that is there is never overwritten."""
    file = home / "talk.jsonl"
    markdown = run_here(home, "sessions", "export", "main").stdout
    whole = json.loads(run_here(home, "sessions", "export", "main", "--json").stdout)
    written = run_here(home, "sessions", "export", "main", "-o", str(file))
    again = run_here(home, "sessions", "export", "telegram:group:7", "-o", str(file))

    session_id = whole["header"]["id"]
    assert f"- Session: {session_id}\n- Key: agent:main:main\n" in markdown
    assert "\n\nWhat files are there?\n\n" in markdown
    assert '**Call of list**\n\n```json\n{\n  "path": "."\n}\n```\n\n**Result of list**\n\n```' in markdown
    assert whole["branch"] == [entry["id"] for entry in whole["entries"]]
    assert file.read_bytes() == (folder(home) / f"{session_id}.jsonl").read_bytes()
    assert file.stat().st_mode & 0o777 == 0o600
    assert written.stdout.startswith(f"Wrote session {session_id} to ")
    assert again.returncode == 1
    assert f"{file} exists and was not overwritten. Name a new file." in again.stderr
    assert user_texts(file) == ["What files are there?"]


def test_a_session_is_deleted_and_can_be_brought_back(home: Path) -> None:
    """Its transcript is renamed, the key is free again, and a slip in one name deletes nothing."""
    slip = run_here(home, "sessions", "delete", "main", "nobody")
    deleted = json.loads(run_here(home, "sessions", "delete", "main", "--json").stdout)
    gone = run_here(home, "sessions", "show", deleted["deleted"][0]["sessionId"])

    assert slip.returncode == 1
    assert "There is no session 'nobody'." in slip.stderr
    [item] = deleted["deleted"]
    aside = Path(item["movedTo"])
    assert aside.name.startswith(f"{item['sessionId']}.jsonl.deleted.")
    assert deleted["problem"] is None
    assert "agent:main:main" not in json.loads((folder(home) / "sessions.json").read_text())
    assert gone.returncode == 1
    aside.rename(folder(home) / f"{item['sessionId']}.jsonl")
    assert run_here(home, "sessions", "show", item["sessionId"]).returncode == 0


def test_a_deleted_session_is_no_longer_found_in_memory(home: Path) -> None:
    """Where conversations are a source of memory search, deleting one takes it out at once."""
    (home / ".nacre" / "nacre.json5").write_text(
        "{agents: {defaults: {memorySearch: {provider: 'none', sources: ['memory', 'sessions'],"
        " experimental: {sessionMemory: true}}}}}"
    )
    old = json.loads(run_here(home, "sessions", "list", "--all", "--json").stdout)["sessions"]
    earlier = next(item["sessionId"] for item in old if not item["current"])
    assert run_here(home, "memory", "index").returncode == 0
    assert "Halcyon" in run_here(home, "memory", "search", "Halcyon boat").stdout

    deleted = run_here(home, "sessions", "delete", earlier[:8])

    assert deleted.stdout.startswith(f"Deleted session {earlier} of agent:main:main. Its transcript is now ")
    assert run_here(home, "memory", "search", "Halcyon boat").stdout.startswith("No matches.")


@pytest.mark.slow
def test_a_session_with_a_turn_is_not_deleted(home: Path) -> None:
    """While another process is in a turn of it; after five seconds the command says so and gives up."""
    asyncio.run(_delete_in_a_turn(home))


async def _delete_in_a_turn(home: Path) -> None:
    lanes = SessionLocks(
        TurnLockFiles(home / ".nacre" / "locks" / "lanes"), sleep=asyncio.sleep, wait_seconds=0.0
    )
    async with lanes.enter("agent:main:main", on_wait=lambda _: None):
        refused = await asyncio.to_thread(run_nacre, home, "sessions", "delete", "main")

    assert refused.returncode == 1
    assert "agent:main:main" in refused.stderr
    assert "agent:main:main" in json.loads((folder(home) / "sessions.json").read_text())


def test_an_earlier_session_is_gone_on_with(home: Path) -> None:
    """In a chat that reads standard input; the key names it from then on."""
    told = json.loads(run_here(home, "sessions", "list", "--all", "--json").stdout)["sessions"]
    earlier = next(item["sessionId"] for item in told if not item["current"])

    back = run_nacre(home, "sessions", "resume", earlier, stdin="/status\n")
    again = json.loads(run_here(home, "sessions", "resume", "main", "--json").stdout)

    assert back.returncode == 0
    assert f"agent:main:main · {earlier}" in back.stdout
    assert again == {
        "key": "agent:main:main",
        "sessionId": earlier,
        "resumed": True,
        "reply": None,
        "error": None,
    }


def test_scripts_can_go_back_without_a_chat(home: Path) -> None:
    """--json switches the session and says so; a name that fits nothing is an error."""
    told = json.loads(run_here(home, "sessions", "list", "--all", "--json").stdout)["sessions"]
    earlier = next(item["sessionId"] for item in told if not item["current"])

    back = json.loads(run_here(home, "sessions", "resume", earlier, "--json").stdout)
    missing = run_here(home, "sessions", "resume", "nobody", "--json")

    assert (back["sessionId"], back["resumed"], back["error"]) == (earlier, True, None)
    assert missing.returncode == 1
    assert "There is no session 'nobody'." in missing.stderr
    current = json.loads((folder(home) / "sessions.json").read_text())["agent:main:main"]
    assert current["sessionId"] == earlier


def test_an_earlier_session_is_gone_on_with_in_a_terminal(home: Path) -> None:
    """The chat begins by going back, and is a chat like any other then."""
    told = json.loads(run_here(home, "sessions", "list", "--all", "--json").stdout)["sessions"]
    earlier = next(item["sessionId"] for item in told if not item["current"])
    with Terminal(home, "sessions", "resume", earlier) as terminal:
        terminal.wait_for("Back in the session of")
        terminal.type("/status\r")
        terminal.wait_for(earlier)
        terminal.type("/quit\r")

        assert terminal.exit_code() == 0


def test_an_empty_state_folder_is_answered(tmp_path: Path) -> None:
    """Before anything was said there is nothing to list and nothing to find; nothing is made by looking."""
    listed = run_here(tmp_path, "sessions", "list")
    shown = run_here(tmp_path, "sessions", "show", "main")

    assert (listed.returncode, shown.returncode) == (0, 1)
    assert listed.stdout == "There are no sessions yet. `nacre chat` starts one.\n"
    assert "There is no session 'main'." in shown.stderr
    assert not (tmp_path / ".nacre" / "agents").exists()


def test_a_conversation_without_a_present_session_is_listed(home: Path) -> None:
    """So imported conversations are there at once. Of a key with a present session, earlier ones are not."""
    listed = json.loads(run_here(home, "sessions", "--json").stdout)["sessions"]
    everything = json.loads(run_here(home, "sessions", "list", "--all", "--json").stdout)["sessions"]
    run_here(home, "sessions", "delete", "main")
    after = json.loads(run_here(home, "sessions", "--json").stdout)["sessions"]

    assert len({each["key"] for each in listed}) == len(listed) < len(everything)
    assert all(each["current"] for each in listed)
    main = next(
        each["key"] for each in listed if each["sessionId"] not in {one["sessionId"] for one in after}
    )
    assert [each["current"] for each in after if each["key"] == main] == [False]
