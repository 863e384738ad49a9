"""`nacre memory reflect`: a diff first, pages only after a yes, found by search, never by a group."""

from __future__ import annotations

import json
from pathlib import Path, PurePosixPath

import pytest

from nacre.runtime.contracts.policy import ChatPolicy
from tests.cli.program import Terminal, run_here, run_nacre
from tests.extensions.curation.logs import DAY, LOG
from tests.runtime.agents import write_settings
from tests.servers.provider_server import ProviderServer

PROVIDER = {"NACRE_MODEL": "openai/test-model", "NO_PROXY": "127.0.0.1"}


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A home whose settings have a bank, with one log."""
    settings = {
        "memory": {"bank": {"enabled": True}},
        "agents": {"defaults": {"memorySearch": {"provider": "none"}}},
    }
    write_settings(tmp_path / ".nacre", settings)
    log = tmp_path / ".nacre/workspace" / DAY
    log.parent.mkdir(parents=True)
    log.write_text(LOG + "\n## Retain\n\n- Peter called\n", encoding="utf-8")
    return tmp_path


def _bank(home: Path) -> Path:
    return home / ".nacre/workspace/bank"


@pytest.mark.covers("SEED-26")
def test_nothing_is_written_without_approval(home: Path) -> None:
    """In a pipe the diff is shown, the line that says nothing is named, and no file is made."""
    ended = run_here(home, "memory", "reflect")

    assert ended.returncode == 0
    assert "+++ b/bank/world.md" in ended.stdout
    assert f"{DAY}#L19 stays in its log" in ended.stderr
    assert "Nothing was written" in ended.stderr
    assert not _bank(home).exists()


def test_approved_pages_are_found_by_search(home: Path) -> None:
    """`--apply` writes; a second run has nothing to do; a search finds the page of an entity."""
    written = run_here(home, "memory", "reflect", "--apply")
    again = run_here(home, "memory", "reflect", "--apply")
    found = run_here(home, "memory", "search", "warelay crash", "--json")

    assert "Wrote 6 pages." in written.stdout
    assert "Nothing to change" in again.stdout
    places = [hit["path"] for hit in json.loads(found.stdout)["results"]]
    also = [place for hit in json.loads(found.stdout)["results"] for place in hit.get("also", ())]
    assert any("bank/entities/warelay.md" in place for place in (*places, *also))


def test_the_json_has_each_change(home: Path) -> None:
    """Scripts get the diffs, and the lines that could not be read; and are told whether it was done."""
    asked = json.loads(run_here(home, "memory", "reflect", "--json").stdout)
    done = json.loads(run_here(home, "memory", "reflect", "--json", "--apply").stdout)

    assert asked["applied"] is False
    assert {change["path"] for change in asked["changes"]} >= {"bank/world.md", "bank/entities/Peter.md"}
    assert asked["unparsed"][0]["line"] == 19
    assert done == asked | {"applied": True}
    assert (_bank(home) / "world.md").is_file()


@pytest.mark.parametrize(("answer", "is_written"), [("n\r", False), ("y\r", True)])
def test_on_a_terminal_it_asks(home: Path, answer: str, is_written: bool) -> None:
    """No is the default, and only yes writes."""
    with Terminal(home, "memory", "reflect") as terminal:
        terminal.wait_for("Write these changes to 6 pages?")
        terminal.type(answer)
        assert terminal.exit_code() == 0

    assert (_bank(home) / "world.md").exists() is is_written


def test_a_model_words_summaries_when_asked(home: Path) -> None:
    """Over HTTP: the page goes as data, words with their link are in the diff, others are not."""
    with ProviderServer() as server:
        settings = {
            "memory": {"bank": {"enabled": True}},
            "models": {"providers": {"openai": {"baseUrl": server.url, "apiKey": "sk-1"}}},
        }
        write_settings(home / ".nacre", settings)
        server.reply(f"Peter is away ({DAY}#L7).")
        server.reply("The castle is a castle.")
        server.error(400, "no")
        asked = run_nacre(home, "memory", "reflect", "--summaries", "--apply", **PROVIDER)
    offline = run_here(home, "memory", "reflect", "--summaries")

    pages = {path.stem: path.read_text(encoding="utf-8") for path in (_bank(home) / "entities").iterdir()}
    assert f"+Peter is away ({DAY}#L7)." in asked.stdout
    assert [name for name, page in pages.items() if "## Summary" in page] == ["Peter"]
    assert "warelay.md is not summarized" in asked.stderr
    sent = server.requests[0]["messages"][-1]["content"]
    assert "> - Currently in Marrakech" in sent
    assert "Nothing to change" in offline.stdout


def test_without_the_setting_there_is_no_bank(tmp_path: Path) -> None:
    """The bank is opt-in, and the sentence names the setting."""
    ended = run_here(tmp_path, "memory", "reflect", "--apply")

    assert ended.returncode == 1
    assert "memory.bank.enabled" in ended.stderr


@pytest.mark.parametrize("chat_kind", ["group", "direct"])
def test_no_other_chat_sees_a_page(chat_kind: str) -> None:
    """A page is the owner's alone, as the logs that it came from."""
    policy = ChatPolicy(
        chat_kind=chat_kind, is_owner=False, session_key_is_private=False, notes_folder="chats/x"
    )

    for page in ("bank/world.md", "bank/entities/Peter.md", "bank"):
        assert not policy.may_read(PurePosixPath(page))
        assert not policy.may_write(PurePosixPath(page))
