"""Calls that wait for approval, answered at the terminal while the turn waits."""

from __future__ import annotations

import json
from pathlib import Path

from tests.cli.program import Terminal
from tests.cli.talk.test_send import PROVIDER, write_provider
from tests.servers.provider_server import ProviderServer


def _asks_before_writing(home: Path, server: ProviderServer) -> Path:
    """Settings in which `write` is approved by the owner; gives the workspace."""
    write_provider(home, server)
    file = home / ".nacre" / "nacre.json5"
    settings = json.loads(file.read_text(encoding="utf-8"))
    settings["tools"] = {"rules": {"write": {"confirm": True}}}
    file.write_text(json.dumps(settings), encoding="utf-8")
    return home / ".nacre" / "workspace"


def _pending(home: Path) -> list[str]:
    folder = home / ".nacre/agents/main/approvals"
    return [json.loads(path.read_text(encoding="utf-8"))["state"] for path in folder.glob("*.json")]


def test_a_call_is_approved_denied_and_left_pending(tmp_path: Path) -> None:
    """`y` lets it run, `n` does not, another word is asked again, Ctrl-C leaves it pending."""
    with ProviderServer() as server:
        workspace = _asks_before_writing(tmp_path, server)
        with Terminal(tmp_path, "chat", **PROVIDER) as terminal:
            terminal.wait_for("›")
            server.tool_calls(
                ("write", {"path": "one.md", "content": "1"}), ("write", {"path": "two.md", "content": "2"})
            )
            server.reply("That was that.")
            terminal.type("write two files\r")
            terminal.wait_for("waits for your approval")
            terminal.wait_for("waits for your approval")
            terminal.wait_for("Approve? [y/n]")
            terminal.type("perhaps\r")
            terminal.wait_for("perhaps\n")
            terminal.wait_for("Approve? [y/n]")
            terminal.type("y\r")
            terminal.wait_for("· write: Wrote 1")
            terminal.wait_for("Approve? [y/n]")
            terminal.type("No\r")
            terminal.wait_for("· write failed")
            terminal.wait_for("That was that.")
            terminal.wait_for("›")
            assert sorted(path.name for path in workspace.glob("[ot][nw][eo].md")) == ["one.md"]
            server.tool_calls(("write", {"path": "three.md", "content": "3"}))
            terminal.type("and a third\r")
            terminal.wait_for("Approve? [y/n]")
            terminal.type("\x03")
            terminal.wait_for("· stopped")
            terminal.wait_for("›")
            terminal.type("\x04")
            assert terminal.exit_code() == 0
    assert not (workspace / "three.md").exists()
    assert "asked" in _pending(tmp_path)
    assert "nacre send -m" not in terminal.shown
