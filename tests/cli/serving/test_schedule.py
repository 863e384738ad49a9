"""`nacre admin schedule`: jobs made in the terminal, beside a program that serves."""

from __future__ import annotations

import json
import signal
from pathlib import Path

import pytest

from nacre.cli.serving.status import NEVER_SERVED
from tests.bridges.channels.contract.line_extension import install_line
from tests.bridges.line_channel import LineServer
from tests.cli.program import WAIT_SECONDS, run_nacre
from tests.cli.serving.test_serve import line_settings, serving
from tests.runtime.agents import write_settings

OWNER = {"commands": {"ownerAllowFrom": ["line:nora"]}}


def test_a_job_of_the_terminal_is_told_in_the_owners_chat(tmp_path: Path) -> None:
    """Made while the program runs, listed, and removed; another is due at once and carried out."""
    path = install_line(tmp_path / "site")
    with LineServer() as server:
        line_settings(tmp_path, server.port, **OWNER)
        early = run_nacre(tmp_path, "admin", "schedule", "add", "--at", "1d", "Water the plants")
        with serving(tmp_path, PYTHONPATH=path) as process:
            server.say("Hello", chat="n", sender="nora")
            server.wait_for(lambda here: here.shown("n"))
            made = run_nacre(tmp_path, "admin", "schedule", "add", "--cron", "0 9 * * *", "Tell me the news")
            jobs = json.loads(run_nacre(tmp_path, "admin", "schedule", "--json").stdout)
            listed = run_nacre(tmp_path, "admin", "schedule", "list")
            removed = run_nacre(tmp_path, "admin", "schedule", "remove", jobs[0]["id"])
            again = run_nacre(tmp_path, "admin", "schedule", "remove", jobs[0]["id"])
            process.send_signal(signal.SIGTERM)
            assert process.wait(WAIT_SECONDS) == 0

    assert early.returncode == 1
    assert "Write to it in private in a chat of `nacre serve` once" in early.stderr
    assert made.returncode == 0, made.stderr
    assert "(0 9 * * *), in the direct chat n of line: Tell me the news" in made.stdout
    assert [(job["cron"], job["channel"], job["chatId"]) for job in jobs] == [("0 9 * * *", "line", "n")]
    assert listed.stdout.startswith(jobs[0]["id"])
    assert (removed.returncode, again.returncode) == (0, 1)


def test_what_cannot_be_read_is_wrong_usage(tmp_path: Path) -> None:
    """With the way to write it, and exit code 2; an empty list says so."""
    run = run_nacre(tmp_path, "admin", "schedule", "add", "--cron", "often", "x")

    assert run.returncode == 2
    assert "needs 5 fields" in run.stderr
    assert run_nacre(tmp_path, "admin", "schedule").stdout == "There are no jobs.\n"


def test_status_tells_of_an_assistant_that_does_not_serve(tmp_path: Path) -> None:
    """Its model and window, notes, sessions and money; in JSON too, and a model that cannot be is told."""
    write_settings(
        tmp_path / ".nacre",
        {"agents": {"defaults": {"contextTokens": 32_000}}, "usage": {"dailyCapUsd": 2}},
    )
    run_nacre(tmp_path, "send", "--session", "boats", "Good morning")
    offline = run_nacre(tmp_path, "status")
    told = json.loads(run_nacre(tmp_path, "status", "--json", "--model", "openai/gpt-5-mini").stdout)
    refused = run_nacre(tmp_path, "status", "--model", "openai")

    rows = {line[:10].strip(): line[10:] for line in offline.stdout.splitlines()}
    assert rows["Model"].startswith("none: the offline responder answers")
    assert rows["Window"].startswith("32,000 tokens; ")
    assert rows["Notes"].startswith("~/.nacre/workspace · ")
    assert rows["Sessions"] == "1, the last boats, just now"
    assert rows["Today"] == "$0.00 of $2.00, as far as prices are known"
    assert (told["model"], told["hasKey"], told["needsKey"]) == ("openai/gpt-5-mini", False, True)
    assert (told["serving"], told["windowTokens"], told["dailyCapUsd"]) == (False, 32_000, 2)
    assert "names a provider and no model" in refused.stdout
    assert "names a provider and no model" not in offline.stdout


@pytest.mark.slow
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
            run_nacre(tmp_path, "admin", "schedule", "add", "--cron", "0 9 * * *", "Tell me the news")
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
    assert "\n\nServing.\nline connected since " in seen.stdout
    assert "💓 Next heartbeat: " in seen.stdout
    assert "⏰ Next job: " in seen.stdout
    assert (told["serving"], told["bridges"][0]["state"]) == (True, "connected")
    assert after.returncode == 1
    assert "\n\nNot serving" in after.stdout
    assert "💓 Next heartbeat: " in "\n".join(server.shown("n"))
