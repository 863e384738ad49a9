"""`nacre schedule`: jobs made in the terminal, beside a program that serves."""

from __future__ import annotations

import json
import signal
from pathlib import Path

from nacre.cli.serving.status import NEVER_SERVED
from tests.bridges.channels.contract.line_extension import install_line
from tests.bridges.line_channel import LineServer
from tests.cli.program import WAIT_SECONDS, run_nacre
from tests.cli.serving.test_serve import line_settings, serving

OWNER = {"commands": {"ownerAllowFrom": ["line:nora"]}}


def test_a_job_of_the_terminal_is_told_in_the_owners_chat(tmp_path: Path) -> None:
    """Made while the program runs, listed, and removed; another is due at once and carried out."""
    path = install_line(tmp_path / "site")
    with LineServer() as server:
        line_settings(tmp_path, server.port, **OWNER)
        early = run_nacre(tmp_path, "schedule", "add", "--at", "1d", "Water the plants")
        with serving(tmp_path, PYTHONPATH=path) as process:
            server.say("Hello", chat="n", sender="nora")
            server.wait_for(lambda here: here.shown("n"))
            made = run_nacre(tmp_path, "schedule", "add", "--cron", "0 9 * * *", "Tell me the news")
            jobs = json.loads(run_nacre(tmp_path, "schedule", "--json").stdout)
            listed = run_nacre(tmp_path, "schedule", "list")
            removed = run_nacre(tmp_path, "schedule", "remove", jobs[0]["id"])
            again = run_nacre(tmp_path, "schedule", "remove", jobs[0]["id"])
            process.send_signal(signal.SIGTERM)
            assert process.wait(WAIT_SECONDS) == 0

    assert early.returncode == 1
    assert "does not know where to tell you: write to it in private once" in early.stderr
    assert made.returncode == 0, made.stderr
    assert "(0 9 * * *), in the direct chat n of line: Tell me the news" in made.stdout
    assert [(job["cron"], job["channel"], job["chatId"]) for job in jobs] == [("0 9 * * *", "line", "n")]
    assert listed.stdout.startswith(jobs[0]["id"])
    assert (removed.returncode, again.returncode) == (0, 1)


def test_what_cannot_be_read_is_wrong_usage(tmp_path: Path) -> None:
    """With the way to write it, and exit code 2; an empty list says so."""
    run = run_nacre(tmp_path, "schedule", "add", "--cron", "often", "x")

    assert run.returncode == 2
    assert "needs 5 fields" in run.stderr
    assert run_nacre(tmp_path, "schedule").stdout == "There are no jobs.\n"


def test_status_says_how_the_program_is_from_beside_it(tmp_path: Path) -> None:
    """Before, while and after it runs; with the channel's state, what is left to do and what comes next."""
    path = install_line(tmp_path / "site")
    with LineServer() as server:
        line_settings(tmp_path, server.port, **OWNER)
        before = run_nacre(tmp_path, "status")
        with serving(tmp_path, PYTHONPATH=path) as process:
            assert process.stdout is not None
            assert any(line == "line connected.\n" for line in process.stdout)
            server.say("Hello", chat="n", sender="nora")
            server.wait_for(lambda here: here.shown("n"))
            run_nacre(tmp_path, "schedule", "add", "--cron", "0 9 * * *", "Tell me the news")
            seen = run_nacre(tmp_path, "status")
            while "connected" not in seen.stdout:  # it is kept a moment after it is told
                seen = run_nacre(tmp_path, "status")
            told = json.loads(run_nacre(tmp_path, "status", "--json").stdout)
            server.say("/status", chat="n", sender="nora")
            server.wait_for(lambda here: any("Next job" in text for text in here.shown("n")))
            process.send_signal(signal.SIGTERM)
            assert process.wait(WAIT_SECONDS) == 0
        after = run_nacre(tmp_path, "status")

    assert (before.returncode, before.stderr) == (1, f"{NEVER_SERVED}\n")
    assert seen.stdout.startswith("Serving.\nline connected since ")
    assert "💓 Next heartbeat: " in seen.stdout
    assert "⏰ Next job: " in seen.stdout
    assert (told["serving"], told["bridges"][0]["state"]) == (True, "connected")
    assert after.returncode == 1
    assert after.stdout.startswith("Not serving")
    assert "💓 Next heartbeat: " in "\n".join(server.shown("n"))
