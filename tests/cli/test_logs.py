"""The log keeps no secrets, stays small, and its loss stops nothing."""

from __future__ import annotations

import json
import logging
import subprocess
import sys
from pathlib import Path

import pytest

from nacre.cli.logs import MAX_LOG_BYTES, RedactingFormatter, secret_values
from nacre.cli.screen.json_text import json_text
from tests.cli.program import environment
from tests.runtime.agents import write_settings
from tests.runtime.settings.disk.test_auth_profiles import write_profiles
from tests.servers.warm_python import run_warm


def line(message: str, *secrets: str) -> str:
    record = logging.LogRecord("nacre.x", logging.WARNING, __file__, 1, message, None, None)
    return RedactingFormatter(secrets).format(record)


@pytest.mark.parametrize(
    "secret",
    [
        "sk-proj-abcdefghijklmnop1234",
        "ghp_abcdefghijklmnopqrstuvwxyz0123456789",
        "AIzaSyA1234567890abcdefghijklmnopqrs",
        "Bearer abcdef0123456789",
        "https://user:hunter22@example.org/x",
        "?api_key=abcdef0123456789&x=1",
    ],
)
def test_what_looks_like_a_key_is_hidden(secret: str) -> None:
    """Keys in known shapes never reach the file, whoever logged them."""
    text = line(f"failed with {secret} there")
    assert "[hidden]" in text
    for part in ("abcdef", "hunter22", "1234567890"):
        assert part not in text


def test_known_secrets_are_hidden_whatever_they_look_like() -> None:
    """The values of variables named as secrets are hidden in messages."""
    secrets = secret_values({"MY_API_KEY": "plain words here", "GH_TOKEN": "short", "HOME": "/home/ada/long"})
    assert secrets == ("plain words here",)
    assert json.loads(line("it said plain words here, at /home/ada/long", *secrets))["message"] == (
        "it said [hidden], at /home/ada/long"
    )


def test_a_trace_keeps_no_secret() -> None:
    """What failed often quotes the key or the address that it is about."""
    try:
        raise ValueError("plain words here, at https://user:hunter22@example.org/x")
    except ValueError:
        record = logging.LogRecord("nacre.x", logging.ERROR, __file__, 1, "no", None, sys.exc_info())
    trace = json.loads(RedactingFormatter(("plain words here",)).format(record))["trace"]
    assert trace.endswith("ValueError: [hidden], at https://[hidden]@example.org/x")
    assert "hunter22" not in trace


BEGUN = """
import click, logging
from nacre.cli.invocation import begin
begin(click.Context(click.Command("x"), obj={}))
logging.getLogger("a.library").warning("sent key of a setting, key of a profile and key of a file")
"""


def test_the_keys_of_an_install_are_hidden_whoever_logs_them(tmp_path: Path) -> None:
    """Those of its settings, its sign-in and its `.env`: libraries quote what they were given."""
    state, script = tmp_path / ".nacre", tmp_path / "begun.py"
    write_settings(state, {"models": {"providers": {"openai": {"apiKey": "key of a setting"}}}})
    profile = {"type": "api_key", "provider": "groq", "key": "key of a profile"}
    write_profiles(state / "agents/main", profiles={"groq:default": profile})
    (state / ".env").write_text("EVE_TOKEN='key of a file'\n")
    script.write_text(BEGUN)
    run_warm(str(script), cwd=tmp_path, env=environment(tmp_path), timeout_seconds=60)

    [record] = (state / "logs/nacre.log").read_text().splitlines()
    assert json.loads(record)["message"] == "sent [hidden], [hidden] and [hidden]"


def test_what_a_key_file_gave_is_hidden_from_then_on() -> None:
    """Passwords of channels are known once their files are read; the longest is hidden first."""
    formatter = RedactingFormatter(("a password",))
    formatter.hide(("a password of a channel", "short"))
    record = logging.LogRecord("nacre.x", 30, __file__, 1, "a password of a channel, short", None, None)
    assert json.loads(formatter.format(record))["message"] == "[hidden], short"


def test_a_record_is_one_line_of_json() -> None:
    """Line feeds and odd characters stay inside the JSON string."""
    entry = json.loads(line("two\nlines \ud83d"))
    assert "\n" not in line("two\nlines")
    assert entry["message"] == "two\nlines ?"
    assert (entry["level"], entry["logger"]) == ("warning", "nacre.x")


@pytest.mark.slow
def test_the_log_is_bounded_and_takes_warnings_and_libraries_off_the_screen(tmp_path: Path) -> None:
    """Whatever is logged, the files stay under four times their size, and nothing reaches the terminal."""
    script = (
        "import logging, sys, warnings; from pathlib import Path\n"
        "from nacre.cli.logs import log_to_file\n"
        "log_to_file(Path(sys.argv[1]), secrets=())\n"
        "warnings.warn('old'); logging.getLogger('a.library').warning('noise')\n"
        "for _ in range(4300): logging.getLogger('nacre.x').info('x' * 1000)\n"
    )

    run = subprocess.run(
        [sys.executable, "-c", script, str(tmp_path)], capture_output=True, text=True, timeout=60
    )

    files = sorted((tmp_path / "logs").iterdir())
    assert (run.stdout, run.stderr) == ("", "")
    assert [path.name for path in files] == ["nacre.log", "nacre.log.1", "nacre.log.2", "nacre.log.3"]
    assert all(path.stat().st_size <= MAX_LOG_BYTES for path in files)


@pytest.mark.covers("ATT-15")
def test_json_for_scripts_cannot_drive_a_terminal() -> None:
    """Text stays readable; control characters, also the eight-bit ones, are escapes."""
    shown = json_text({"reply": "船 \x1b[2J \x9b2J \ud83d"})
    assert json.loads(shown) == {"reply": "船 \x1b[2J \x9b2J \ud83d"}
    assert "船" in shown
    assert shown.isprintable() or not [c for c in shown if ord(c) < 32 and c != "\n"]
    assert "\x9b" not in shown
