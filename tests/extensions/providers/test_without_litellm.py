"""An install without the extra `litellm`: what works, and what the others are told."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

from tests.cli.program import WAIT_SECONDS, environment
from tests.runtime.agents import write_settings
from tests.servers.provider_server import ProviderServer
from tests.servers.provider_wire import usage
from tests.servers.warm_python import run_warm

PROGRAM = """
import sys

sys.modules["litellm"] = None  # as if it were not installed
from nacre.__main__ import main

main()
"""
CLAUDE = "anthropic/claude-sonnet-4-5"


def run(home: Path, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """A command of `nacre` where litellm cannot be found."""
    program = home / "program.py"
    program.write_text(PROGRAM, encoding="utf-8")
    return run_warm(
        str(program),
        *arguments,
        cwd=home,
        env=environment(home, **variables),
        timeout_seconds=WAIT_SECONDS,
    )


def test_a_server_of_openais_protocol_answers_with_known_window_and_price(tmp_path: Path) -> None:
    """A whole turn, with the window and the cost from the price map that Nacre ships."""
    with ProviderServer() as server:
        server.reply("Good morning.", usage=usage(1_000, 500))
        provider = {"baseUrl": server.url, "apiKey": "sk-test"}
        settings = {"models": {"providers": {"openai": provider}}}
        write_settings(tmp_path / ".nacre", settings)
        model = {"NACRE_MODEL": "openai/gpt-4o"}
        said = run(tmp_path, "send", "-m", "Hello", **model)
        used = json.loads(run(tmp_path, "usage", "--json", **model).stdout)
        findings = json.loads(run(tmp_path, "doctor", "--json", **model).stdout)["findings"]

    assert (said.returncode, said.stdout.strip()) == (0, "Good morning.")
    assert "0.0075" in json.dumps(used)
    assert any(each["area"] == "window" and "128000 tokens" in each["text"] for each in findings)


def test_a_model_that_needs_litellm_tells_the_command_that_installs_it(tmp_path: Path) -> None:
    """At the first turn, and in `nacre doctor`."""
    key = {"ANTHROPIC_API_KEY": "sk-ant-test", "NACRE_MODEL": CLAUDE}
    said = run(tmp_path, "send", "-m", "Hello", **key)
    findings = json.loads(run(tmp_path, "doctor", "--json", **key).stdout)["findings"]
    problem = next(each for each in findings if each["area"] == "model")

    assert said.returncode != 0
    assert f"The model {CLAUDE!r} needs litellm, which is not installed. Install it with: " in said.stderr
    assert "[litellm]" in said.stderr
    assert (problem["state"], "[litellm]" in problem["advice"]) == ("problem", True)


@pytest.mark.slow
def test_init_installs_it_and_says_when_it_cannot(tmp_path: Path) -> None:
    """Without an index the installer fails, and the owner gets its command."""
    variables = {"PIP_NO_INDEX": "1", "PIP_CONFIG_FILE": os.devnull, "UV_OFFLINE": "1", "UV_NO_INDEX": "1"}
    said = run(tmp_path, "init", "--yes", "--model", CLAUDE, ANTHROPIC_API_KEY="sk-ant-test", **variables)

    assert said.returncode == 1
    assert "Installing the extra 'litellm'" in said.stderr
    assert "(exit code " in said.stderr
