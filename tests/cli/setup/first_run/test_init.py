"""`nacre init`: what it asks, finds, tries and writes, and what it leaves alone."""

from __future__ import annotations

import json
import socket
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from nacre.runtime.agent.first_model.choices import LOCAL_SERVERS
from nacre.runtime.models.openai_compatible.providers import PROVIDERS
from nacre.runtime.settings.config import load_config
from tests.cli.program import Terminal, run_nacre
from tests.servers import provider_wire as wire
from tests.servers.provider_server import ProviderServer

COUNTED = wire.usage(1000, 100)


@pytest.fixture
def nobody() -> Iterator[dict[str, str]]:
    """Variables in which no server of models is on this machine: all lead to a port that refuses."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # bound and not listening, so that it stays closed
        url = f"http://127.0.0.1:{taken.getsockname()[1]}/v1"
        yield {PROVIDERS[name].base_url_variables[0]: url for name in LOCAL_SERVERS}


def _config(home: Path, **environment: str) -> tuple[str, str, str]:
    config = load_config({"HOME": str(home), **environment})
    key = next((provider.api_key for provider in config.settings.models.providers.values()), "")
    return config.model_name, config.settings.agent.user_timezone, key


def test_four_questions_set_up_a_model_with_its_key(tmp_path: Path, nobody: dict[str, str]) -> None:
    """Name, time zone, model, key: tried with one call that says what it cost, and each kept in its place."""
    with ProviderServer(expected_key="sk-bees") as server:
        server.reply("ready", usage=COUNTED)
        variables = {**nobody, "OPENAI_BASE_URL": server.url}
        with Terminal(tmp_path, "init", **variables) as terminal:
            terminal.wait_for("What is your name")
            terminal.type("Ada Lovelace\r")
            terminal.wait_for("Your time zone [")
            terminal.type("Europe/Atlantis\r")
            terminal.wait_for("no IANA time zone")
            terminal.type("Europe/Lisbon\r")
            terminal.wait_for("Which model")
            terminal.type("openai/gpt-5-mini\r")
            terminal.wait_for("set it later): ")
            terminal.type("sk-bees\r")
            terminal.wait_for("Where is the key to be kept")
            terminal.type("1\r")
            terminal.wait_for("openai/gpt-5-mini answered in")
            terminal.wait_for("1100 tokens, $0.000450")
            terminal.wait_for("Model      openai/gpt-5-mini")
            assert terminal.exit_code() == 0
            shown = terminal.shown
    kept = tmp_path / ".nacre" / ".env"
    settings = (tmp_path / ".nacre" / "nacre.json5").read_text()

    assert "sk-bees" not in shown + settings
    assert (kept.read_text(), stat.S_IMODE(kept.stat().st_mode)) == ("OPENAI_API_KEY='sk-bees'\n", 0o600)
    assert settings.startswith("// Settings of Nacre.")
    assert _config(tmp_path) == ("openai/gpt-5-mini", "Europe/Lisbon", "sk-bees")
    user = (tmp_path / ".nacre" / "workspace" / "USER.md").read_text()
    assert "- **Name:** Ada Lovelace\n- **How to address them:**\n" in user


def test_what_a_model_says_when_it_does_not_answer_leads_back_to_the_question(
    tmp_path: Path, nobody: dict[str, str]
) -> None:
    """A wrong key is told and nothing of it is written; the owner may stay offline."""
    with ProviderServer(expected_key="sk-bees") as server:
        variables = {**nobody, "OPENAI_BASE_URL": server.url, "OPENAI_API_KEY": "sk-wrong"}
        with Terminal(tmp_path, "init", **variables) as terminal:
            terminal.wait_for("What is your name")
            terminal.type("\r")
            terminal.wait_for("Your time zone")
            terminal.type("\r")
            terminal.wait_for("1  openai/gpt-5-mini  (key in OPENAI_API_KEY)")
            terminal.type("\r")
            terminal.wait_for("the environment, as now (OPENAI_API_KEY)")
            terminal.type("\r")
            terminal.wait_for("openai/gpt-5-mini did not answer: ")
            terminal.wait_for("all the same")
            terminal.type("\r")
            terminal.wait_for("Which model")
            terminal.type("0\r")
            terminal.wait_for("Model      none yet")
            assert terminal.exit_code() == 0

    assert not (tmp_path / ".nacre" / "nacre.json5").exists()
    assert not (tmp_path / ".nacre" / ".env").exists()
    assert "- **Name:**\n" in (tmp_path / ".nacre" / "workspace" / "USER.md").read_text()


def test_with_yes_the_first_model_of_this_machine_that_answers_is_taken(
    tmp_path: Path, nobody: dict[str, str]
) -> None:
    """A server here goes before a key in the environment, what only embeds is passed over, and a second
    run changes nothing."""
    with ProviderServer(models=["nomic-embed-text", "qwen3:8b", "llama3.2"]) as server:
        server.reply("ready", usage=COUNTED)
        variables = {**nobody, "LM_STUDIO_API_BASE": server.url, "OPENAI_API_KEY": "sk-elsewhere"}
        first = run_nacre(tmp_path, "init", "--yes", "--json", **variables)
        settings = (tmp_path / ".nacre" / "nacre.json5").read_bytes()
        again = run_nacre(tmp_path, "init", "--yes", **variables)
    facts = json.loads(first.stdout)

    assert facts["model"] == "lm_studio/qwen3:8b"
    assert facts["trial"]["problem"] == ""
    assert facts["trial"]["usage"]["inputTokens"] == 1000
    assert server.requests[0]["model"] == "qwen3:8b"
    assert again.returncode == 0
    assert (tmp_path / ".nacre" / "nacre.json5").read_bytes() == settings
    assert _config(tmp_path)[0] == "lm_studio/qwen3:8b"


def test_what_the_settings_say_stays_with_its_comments(tmp_path: Path, nobody: dict[str, str]) -> None:
    """A model that the run names is tried and written beside what is there."""
    (tmp_path / ".nacre").mkdir()
    settings = tmp_path / ".nacre" / "nacre.json5"
    settings.write_text('{\n  // mine\n  agents: {defaults: {userTimezone: "Asia/Tokyo"}},\n}\n')
    with ProviderServer() as server:
        server.reply("ready")
        run = run_nacre(
            tmp_path, "init", "--yes", "--model", "ollama/qwen3", **{**nobody, "OLLAMA_API_BASE": server.url}
        )

    assert run.returncode == 0
    assert "// mine" in settings.read_text()
    assert _config(tmp_path)[:2] == ("ollama/qwen3", "Asia/Tokyo")


def test_a_named_model_that_does_not_answer_is_code_1_and_not_written(
    tmp_path: Path, nobody: dict[str, str]
) -> None:
    """The folders are there all the same; without a name and a server there is nothing to try."""
    named = run_nacre(tmp_path, "init", "--yes", "--model", "ollama/qwen3", **nobody)
    nothing = run_nacre(tmp_path, "init", "--yes", **nobody)

    assert named.returncode == 1
    assert "ollama/qwen3 did not answer" in named.stderr
    assert (tmp_path / ".nacre" / "workspace" / "AGENTS.md").is_file()
    assert not (tmp_path / ".nacre" / "nacre.json5").exists()
    assert (nothing.returncode, "Model      none yet" in nothing.stdout) == (0, True)
