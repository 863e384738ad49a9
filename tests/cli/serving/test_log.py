"""`nacre admin log`: its end, and what comes behind it, also when the file is begun anew."""

from __future__ import annotations

import json
from pathlib import Path

from tests.cli.program import Terminal, run_nacre


def _line(message: str) -> str:
    entry = {"at": "2026-03-14T12:00:00.000Z", "level": "info", "logger": "nacre.x", "message": message}
    return json.dumps(entry) + "\n"


def test_the_log_is_shown_and_followed_into_the_next_file(tmp_path: Path) -> None:
    """The last lines first, then each one as it comes, none of them lost where the file is renamed."""
    log = tmp_path / ".nacre" / "logs" / "nacre.log"
    log.parent.mkdir(parents=True, mode=0o700)
    log.write_text("".join(_line(f"number {number}") for number in range(30)), encoding="utf-8")

    shown = run_nacre(tmp_path, "admin", "log", "-n", "2").stdout
    raw = run_nacre(tmp_path, "admin", "log", "-n", "1", "--json").stdout
    with Terminal(tmp_path, "admin", "log", "-f", "-n", "1") as terminal:
        terminal.wait_for("number 29")
        with log.open("a", encoding="utf-8") as file:
            file.write(_line("before the change") + _line("half")[:20])
        terminal.wait_for("before the change")
        with log.open("a", encoding="utf-8") as file:
            file.write(_line("half")[20:])
        log.rename(log.with_name("nacre.log.1"))
        log.write_text(_line("after the change"), encoding="utf-8")
        terminal.wait_for("x: half")
        terminal.wait_for("after the change")
        terminal.type("\x03")
        code = terminal.exit_code()

    assert shown.splitlines() == [
        f"2026-03-14T12:00:00.000Z info    x: number {number}" for number in (28, 29)
    ]
    assert json.loads(raw)["message"] == "number 29"
    assert code == 130
