"""`nacre restore FILE` on another machine, and over an assistant that is there."""

from __future__ import annotations

import asyncio
import json
import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from nacre.runtime.ledger.file_ledger import ledger_file
from nacre.runtime.models.scripted import Clock, CountingIds
from tests.cli.program import Terminal, run_nacre
from tests.runtime.agents import START, write_settings

EARLIER = 1_700_000_000


def _archive(home: Path) -> Path:
    """A backup of an assistant that knows one thing, and whose settings name a variable."""
    home.mkdir()
    write_settings(home / ".nacre", {"models": {"providers": {"desk": {"apiKey": "${DESK_KEY}"}}}})
    with (home / ".nacre/nacre.json5").open("a") as settings:
        settings.write("// a comment, as in the example of `nacre init`: ${ANTHROPIC_API_KEY}\n")
    assert run_nacre(home, "send", "-m", "Remember that my boat is called Halcyon.").returncode == 0
    (talk,) = (home / ".nacre/agents/main/sessions").glob("*.jsonl")
    os.utime(talk, (EARLIER, EARLIER))
    assert run_nacre(home, "backup", "all.tar.gz").returncode == 0
    return home / "all.tar.gz"


def test_a_new_machine_needs_no_more_than_the_archive(tmp_path: Path) -> None:
    """Also where a command has run before; the answer names the key that stayed behind. Conversations keep
    their days."""
    archive, new = _archive(tmp_path / "old"), tmp_path / "new"
    (new / ".nacre" / "logs").mkdir(parents=True)

    restored = run_nacre(new, "restore", str(archive))

    assert restored.returncode == 0, restored.stderr
    assert "variables DESK_KEY, which the settings name" in restored.stdout
    (talk,) = (new / ".nacre/agents/main/sessions").glob("*.jsonl")
    assert talk.stat().st_mtime == EARLIER
    assert "Halcyon" in run_nacre(new, "search", "boat").stdout


def test_nothing_is_not_backed_up(tmp_path: Path) -> None:
    """An empty archive would look like a backup."""
    tried = run_nacre(tmp_path, "backup", "all.tar.gz")

    assert tried.returncode == 1
    assert "no assistant yet, so nothing was written" in tried.stderr
    assert not (tmp_path / "all.tar.gz").exists()


def test_a_search_makes_no_assistant(tmp_path: Path) -> None:
    """On a machine where only a search was tried, a restore asks nothing."""
    archive, new = _archive(tmp_path / "old"), tmp_path / "new"
    new.mkdir()
    run_nacre(new, "search", "boat")

    restored = run_nacre(new, "restore", str(archive))

    assert restored.returncode == 0, restored.stderr
    assert "Halcyon" in run_nacre(new, "search", "boat").stdout


def test_an_assistant_that_is_there_is_kept_aside(tmp_path: Path) -> None:
    """Without a terminal nothing is replaced unasked; with `--yes` the other one is renamed, not deleted."""
    archive, new = _archive(tmp_path / "old"), tmp_path / "new"
    new.mkdir()
    run_nacre(new, "send", "-m", "Remember that my kite is called Swift.")

    refused = run_nacre(new, "restore", str(archive))
    assert refused.returncode == 1
    assert "nothing was changed" in refused.stderr
    assert "Swift" in run_nacre(new, "search", "kite").stdout
    with Terminal(new, "restore", str(archive)) as terminal:
        terminal.wait_for("\nIt would move to ")
        terminal.wait_for("Replace it?")
        terminal.type("n\r")
        terminal.wait_for("Error: Nothing was changed.")
        assert terminal.exit_code() == 1

    told = json.loads(run_nacre(new, "restore", str(archive), "--yes", "--json").stdout)
    assert told["missingVariables"] == ["DESK_KEY"]
    assert "Halcyon" in run_nacre(new, "search", "boat").stdout
    kept = run_nacre(new, "search", "kite", NACRE_STATE_DIR=told["replaced"])
    assert "Swift" in kept.stdout


async def test_what_serves_is_not_replaced(tmp_path: Path) -> None:
    """`nacre serve` would go on in the new folder with the ledger of the old one."""
    archive, served = _archive(tmp_path / "old"), ledger_file(tmp_path / "old/.nacre")
    ledger = await served.open(now=Clock(START), new_id=CountingIds("b-"))
    try:
        tried = await asyncio.to_thread(run_nacre, tmp_path / "old", "restore", str(archive), "--yes")
    finally:
        await ledger.close()

    assert tried.returncode == 1
    assert "Stop it first." in tried.stderr
    assert not list((tmp_path / "old").glob("*before*"))


def test_a_volume_of_a_container_keeps_its_place(tmp_path: Path) -> None:
    """Nobody can rename it or write beside it. An assistant that is in it moves into a folder of it."""
    archive, state = _archive(tmp_path / "old"), tmp_path / "state"
    state.mkdir()
    run = f"{shlex.quote(sys.executable)} -m nacre --state-dir {state}"
    program = (
        f"mount -t tmpfs none {state} || exit 77; {run} restore {archive} && {run} restore {archive} --yes "
    )
    program += f"&& {run} search boat && ls -A {state} {state}/state.before-*"
    ended = subprocess.run(
        ["unshare", "-rm", "sh", "-c", program], capture_output=True, text=True, check=False
    )
    if ended.returncode == 77 or "unshare" in ended.stderr:
        pytest.skip("this system lets nobody mount a folder")

    assert ended.returncode == 0, ended.stderr
    assert "Halcyon" in ended.stdout
    assert ended.stdout.count("nacre.json5") == 2
    assert "restoring" not in ended.stdout


def test_init_restores_instead_of_setting_up(tmp_path: Path) -> None:
    """Its first question takes the file; a path with no file is asked again, and a key left out is named."""
    archive, new = _archive(tmp_path / "old"), tmp_path / "new"
    new.mkdir()

    with Terminal(new, "init") as terminal:
        terminal.wait_for("restore a backup")
        terminal.type("2\r")
        terminal.wait_for("The file of the backup")
        terminal.type("nowhere.tar.gz\r")
        terminal.wait_for("is not a file")
        terminal.wait_for("restore a backup")
        terminal.type("2\r")
        terminal.wait_for("The file of the backup")
        terminal.type(f"{archive}\r")
        terminal.wait_for("the variables DESK_KEY")
        assert terminal.exit_code() == 0

    assert [entry.name for entry in new.iterdir()] == [".nacre"]
    assert "Halcyon" in run_nacre(new, "search", "boat").stdout


def test_init_restores_without_a_question_but_replaces_nothing(tmp_path: Path) -> None:
    """The second time the assistant is there."""
    archive, new = _archive(tmp_path / "old"), tmp_path / "new"
    new.mkdir()
    arguments = ("init", "--yes", "--json", "--restore", str(archive))

    assert json.loads(run_nacre(new, *arguments).stdout)["missingVariables"] == ["DESK_KEY"]
    again = run_nacre(new, *arguments)
    assert again.returncode == 1
    assert "nothing was changed" in again.stderr
    assert [entry.name for entry in new.iterdir()] == [".nacre"]
