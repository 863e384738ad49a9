"""`nacre init`: what it asks, finds, tries and writes, and what it leaves alone."""

from __future__ import annotations

import json
import os
import plistlib
import re
import shlex
import socket
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from nacre.cli.setup.service import service_for
from nacre.extensions.providers.catalog import LOCAL_SERVERS
from nacre.extensions.providers.openai_compatible.providers import PROVIDERS
from nacre.runtime.settings.config import load_config
from tests.cli.program import Terminal, run_here, run_nacre
from tests.servers import provider_wire as wire
from tests.servers.provider_server import ProviderServer

COUNTED = wire.usage(1000, 100)


@pytest.fixture
def nobody() -> Iterator[dict[str, str]]:
    """Variables in which no server of models is on this machine, as all lead to a port that refuses, and no
    keyring."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # bound and not listening, so that it stays closed
        url = f"http://127.0.0.1:{taken.getsockname()[1]}/v1"
        servers = {PROVIDERS[name].base_url_variables[0]: url for name in LOCAL_SERVERS}
        yield {**servers, "PYTHON_KEYRING_BACKEND": "keyring.backends.fail.Keyring"}


def _config(home: Path, **environment: str) -> tuple[str, str, str]:
    config = load_config({"HOME": str(home), **environment})
    key = next((provider.api_key for provider in config.settings.models.providers.values()), "")
    return config.model_name, config.settings.agent.user_timezone, key


def up_to_the_model(terminal: Terminal, *, is_new: bool = False) -> None:
    """Leaves name and time zone as they are, in a new assistant also the question for a backup."""
    if is_new:
        terminal.wait_for("restore a backup")
        terminal.type("\r")
    terminal.wait_for("What is your name")
    terminal.type("\r")
    terminal.wait_for("Your time zone")
    terminal.type("\r")


def test_four_questions_set_up_a_model_with_its_key(tmp_path: Path, nobody: dict[str, str]) -> None:
    """Name, time zone, model, key: tried with one call that says what it cost, and each kept in its place."""
    with ProviderServer(expected_key="sk-bees") as server:
        server.reply("ready", usage=COUNTED)
        variables = {**nobody, "OPENAI_BASE_URL": server.url}
        with Terminal(tmp_path, "init", **variables) as terminal:
            terminal.wait_for("restore a backup")
            terminal.type("\r")
            terminal.wait_for("What is your name")
            terminal.type("Ada Lovelace\r")
            terminal.wait_for("Your time zone [")
            terminal.type("Europe/Atlantis\r")
            terminal.wait_for("not an IANA time zone")
            terminal.type("Europe/Lisbon\r")
            terminal.wait_for("Which model")
            terminal.type("openai/gpt-5-mini\r")
            terminal.wait_for("set it later): ")
            terminal.type("sk-bees\r")
            terminal.wait_for("It is stored in ~/.nacre/.env, which only you can read.")
            terminal.wait_for("openai/gpt-5-mini answered in")
            terminal.wait_for("1100 tokens, $0.000450")
            terminal.wait_for("Keep it (k)")
            terminal.type("k\r")
            terminal.wait_for("Also reach it by Telegram")
            terminal.type("n\r")
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
            up_to_the_model(terminal, is_new=True)
            terminal.wait_for("1  openai/gpt-5-mini  (key in OPENAI_API_KEY)")
            terminal.type("\r")
            terminal.wait_for("the environment, as now (OPENAI_API_KEY)")
            terminal.type("\r")
            terminal.wait_for("openai/gpt-5-mini did not answer: ")
            terminal.wait_for("anyway")
            terminal.type("\r")
            terminal.wait_for("Which model")
            terminal.type("0\r")
            terminal.wait_for("Also reach it by Telegram")
            terminal.type("\r")
            terminal.wait_for("Model      none yet")
            assert terminal.exit_code() == 0

    assert not (tmp_path / ".nacre" / "nacre.json5").exists()
    assert not (tmp_path / ".nacre" / ".env").exists()
    assert "- **Name:**\n" in (tmp_path / ".nacre" / "workspace" / "USER.md").read_text()


def test_a_server_of_the_owners_with_a_fallback_and_telegram(tmp_path: Path, nobody: dict[str, str]) -> None:
    """The address is completed and probed, the key asked only because it is wanted, and each answer kept."""
    listed = {"data": [{"id": "bge-m3"}, {"id": "qwen3", "max_model_len": 32_768}]}
    with ProviderServer(expected_key="sk-desk") as server, ProviderServer(models=["small"]) as second:
        server.facts = {"/v1/models": listed}
        server.reply("ready")
        second.reply("ready")
        with Terminal(tmp_path, "init", **nobody, **with_systemd(tmp_path)) as terminal:
            up_to_the_model(terminal, is_new=True)
            terminal.wait_for("9  another address")
            terminal.type("9\r")
            terminal.wait_for("Its address")
            terminal.type(f"127.0.0.1:{server.port}\r")
            terminal.wait_for("A short name for this server [local]")
            terminal.type("desk\r")
            terminal.wait_for("needs a key (DESK_API_KEY)")
            terminal.wait_for("Its key (not shown; blank to go back): ")
            terminal.type("sk-wrong\r")
            terminal.wait_for("refused the key.")
            terminal.wait_for("blank to go back): ")
            terminal.type("sk-desk\r")
            terminal.wait_for("It is stored in ~/.nacre/.env, which only you can read.")
            terminal.wait_for("1  qwen3  (32,768 tokens)")
            terminal.type("qwen\r")
            terminal.wait_for("desk/qwen3 answered in")
            terminal.type("f\r")
            terminal.wait_for("0  keep desk/qwen3")
            terminal.wait_for("Which model or provider")
            terminal.type(f"127.0.0.1:{second.port}\r")
            terminal.wait_for("A short name for this server [local]")
            terminal.type("desk\r")
            terminal.wait_for(f"desk is the server at {server.url}. Give this one another name.")
            terminal.type("spare\r")
            terminal.wait_for("1  small")
            terminal.type("\r")
            terminal.wait_for("spare/small answered in")
            terminal.type("k\r")
            terminal.wait_for("Also reach it by Telegram")
            terminal.type("y\r")
            terminal.wait_for("blank for none): ")
            terminal.type("123:abc\r")
            terminal.wait_for("a service that runs `nacre serve`")
            terminal.type("y\r")
            terminal.wait_for("Model      desk/qwen3")
            terminal.wait_for("Fallback   spare/small")
            terminal.wait_for("to start it: systemctl --user enable")
            assert terminal.exit_code() == 0
    config = load_config({"HOME": str(tmp_path)})
    providers, model = config.settings.models.providers, config.settings.agent.model
    assert (model.primary, model.fallbacks) == ("desk/qwen3", ("spare/small",))
    assert (providers["desk"].base_url, providers["desk"].api_key) == (server.url, "sk-desk")
    assert (providers["spare"].base_url, providers["spare"].api_key) == (second.url, "")
    kept = (tmp_path / ".nacre" / ".env").read_text()
    assert "TELEGRAM_BOT_TOKEN='123:abc'" in kept
    assert "123:abc" not in (tmp_path / ".nacre" / "nacre.json5").read_text()
    assert (tmp_path / ".config/systemd/user/nacre.service").is_file()
    assert not (tmp_path / "asked").exists()


def with_systemd(home: Path) -> dict[str, str]:
    """A PATH with a `systemctl` that leaves the file `asked` when somebody runs it."""
    program = home / "bin" / "systemctl"
    program.parent.mkdir()
    program.write_text(f"#!/bin/sh\ntouch {home}/asked\n")
    program.chmod(0o755)
    return {"PATH": f"{program.parent}:{os.environ['PATH']}"}


def test_a_service_is_written_once_and_never_started(tmp_path: Path) -> None:
    """It runs this program with this state folder; one that somebody changed stays as it is."""
    systemd = with_systemd(tmp_path)
    written = run_here(tmp_path, "init", "--service", **systemd)
    again = run_here(tmp_path, "init", "--service", "--json", **systemd)
    unit = tmp_path / ".config/systemd/user/nacre.service"
    text = unit.read_text()
    unit.write_text("# mine\n")
    other = run_here(tmp_path, "init", "--service", **systemd)

    assert "to start it: systemctl --user enable --now nacre" in written.stdout
    assert json.loads(again.stdout)["service"] == str(unit)
    (command,) = re.findall(r"(?m)^ExecStart=(.+)$", text)
    assert Path(shlex.split(command)[0]).is_file()
    assert shlex.split(command)[-1] == "serve"
    assert "other content" in other.stderr
    assert unit.read_text() == "# mine\n"
    assert not (tmp_path / "asked").exists()


def test_a_service_for_each_system(tmp_path: Path) -> None:
    """systemd on Linux, launchd on a Mac; elsewhere none. A state folder of one's own is named in it."""
    state, program = tmp_path / "100% mine", ["/opt/n b/nacre", "serve"]
    path = with_systemd(tmp_path)["PATH"]
    unit = service_for("linux", {"HOME": str(tmp_path), "PATH": path}, state, program)
    agent = service_for("darwin", {"HOME": str(tmp_path)}, state, program)
    assert unit is not None
    assert agent is not None
    text, listed = unit.data.decode(), plistlib.loads(agent.data)

    assert 'ExecStart="/opt/n b/nacre" "serve"\n' in text
    assert f'Environment="NACRE_STATE_DIR={tmp_path}/100%% mine"\n' in text
    assert f"EnvironmentFile=-{tmp_path}/100%% mine/serve.env\n" in text
    assert agent.file == tmp_path / "Library/LaunchAgents/nacre.plist"
    assert listed["ProgramArguments"] == program
    assert listed["EnvironmentVariables"] == {"NACRE_STATE_DIR": str(state)}
    assert service_for("win32", {"HOME": str(tmp_path)}, state, program) is None
    assert service_for("linux", {"HOME": str(tmp_path), "PATH": ""}, state, program) is None


def test_an_address_without_questions(tmp_path: Path, nobody: dict[str, str]) -> None:
    """Its first model that talks is taken; where nobody answers that is said, and nothing is written."""
    with ProviderServer(models=["bge-m3", "qwen3"]) as server:
        server.reply("ready")
        run = run_nacre(tmp_path, "init", "--yes", "--address", f"127.0.0.1:{server.port}", **nobody)
    (tmp_path / "dead").mkdir()
    dead = run_nacre(tmp_path / "dead", "init", "--yes", "--address", server.url, **nobody)

    assert run.returncode == 0, run.stderr
    config = load_config({"HOME": str(tmp_path)})
    assert config.model_name == "local/qwen3"
    assert config.settings.models.providers["local"].base_url == server.url
    assert (dead.returncode, f"Nothing answers at {server.url}." in dead.stderr) == (2, True)
    assert not (tmp_path / "dead" / ".nacre" / "nacre.json5").exists()


def test_another_address_replaces_the_model_once_it_answers(tmp_path: Path, nobody: dict[str, str]) -> None:
    """An address is an answer, also without --yes; where no list of models is, nothing changes."""
    with ProviderServer(models=["qwen3"]) as first, ProviderServer(models=["gemma"]) as second:
        first.reply("ready")
        second.reply("ready")
        assert run_nacre(tmp_path, "init", "--address", first.url, **nobody).returncode == 0
        moved = run_nacre(tmp_path, "init", "--address", second.url, **nobody)
        first.facts = {"/v1/models": {}}
        lost = run_nacre(tmp_path, "init", "--address", first.url, **nobody)
    config = load_config({"HOME": str(tmp_path)})

    assert "Model      local/gemma" in moved.stdout
    assert (lost.returncode, "answers, but has no list of models" in lost.stderr) == (2, True)
    assert config.model_name == "local/gemma"
    assert config.settings.models.providers["local"].base_url == second.url


def test_the_model_that_a_run_names_is_tried_and_kept(tmp_path: Path, nobody: dict[str, str]) -> None:
    """Also one that is named by its address, with and without questions; only what is not said is asked."""
    with ProviderServer(models=["qwen3"]) as first, ProviderServer(models=["gemma"]) as second:
        for server in (first, second):
            server.reply("ready")
        run = run_nacre(tmp_path, "init", "--yes", NACRE_MODEL=first.url, **nobody)
        assert run.returncode == 0, run.stderr
        assert _config(tmp_path)[0] == "local/qwen3"
        options = ("--model", second.url, "--fallback", "openai/gpt-5-mini")
        with Terminal(tmp_path, "init", *options, **nobody) as terminal:
            up_to_the_model(terminal)
            terminal.wait_for("local/gemma answered in")
            terminal.wait_for("Also reach it by Telegram")
            terminal.type("n\r")
            terminal.wait_for("Model      local/gemma")
            assert terminal.exit_code() == 0
    config = load_config({"HOME": str(tmp_path)})
    assert config.model_name == "local/gemma"
    assert config.settings.models.providers["local"].base_url == second.url
    assert config.settings.agent.model.fallbacks == ("openai/gpt-5-mini",)


def test_a_second_run_offers_another_model(tmp_path: Path, nobody: dict[str, str]) -> None:
    """A refused key is told and asked again; a name that is not on the list can be tried; a server that the
    settings have is offered with its address and its key."""
    with ProviderServer(models=["qwen3"], expected_key="sk-bees") as server:
        server.reply("ready")
        variables = {**nobody, "OPENAI_BASE_URL": server.url, "OPENAI_API_KEY": "sk-wrong"}
        run_nacre(tmp_path, "config", "set", "agents.defaults.model.primary", "ollama/llama3.2")
        run_nacre(tmp_path, "send", "Hello", "--model", "offline/extractive")
        with Terminal(tmp_path, "init", **variables) as terminal:
            up_to_the_model(terminal)
            terminal.wait_for("The model is ollama/llama3.2. Choose another")
            terminal.type("y\r")
            terminal.wait_for("2  OpenAI")
            terminal.wait_for("0  keep ollama/llama3.2")
            terminal.type("2\r")
            terminal.wait_for("the environment, as now (OPENAI_API_KEY)")
            terminal.type("\r")
            terminal.wait_for("OpenAI refused the key.")
            terminal.wait_for("0  keep ollama/llama3.2")
            terminal.wait_for("Which model or provider")
            terminal.type(f"http://127.0.0.1:{server.port}\r")
            terminal.wait_for("A short name for this server [local]")
            terminal.type("\r")
            terminal.wait_for("local needs a key (LOCAL_API_KEY)")
            terminal.wait_for("blank to go back): ")
            terminal.type("sk-bees\r")
            terminal.wait_for("1  qwen3")
            terminal.type("qwen9\r")
            terminal.wait_for("The list has no such model. Try qwen9 anyway")
            terminal.type("y\r")
            terminal.wait_for("local/qwen9 answered in")
            terminal.type("k\r")
            terminal.wait_for("Also reach it by Telegram")
            terminal.type("n\r")
            terminal.wait_for("Model      local/qwen9")
            assert terminal.exit_code() == 0
        server.reply("ready")
        with Terminal(tmp_path, "init", **nobody) as terminal:
            up_to_the_model(terminal)
            terminal.wait_for("The model is local/qwen9. Choose another")
            terminal.type("y\r")
            terminal.wait_for(f"1  local at {server.url}")
            terminal.type("1\r")
            terminal.wait_for(f"Its address (blank to go back) [{server.url}]")
            terminal.type("\r")
            terminal.wait_for("1  qwen3")
            terminal.type("\r")
            terminal.wait_for("local/qwen3 answered in")
            terminal.type("k\r")
            terminal.wait_for("Also reach it by Telegram")
            terminal.type("n\r")
            terminal.wait_for("Model      local/qwen3")
            assert terminal.exit_code() == 0
    provider = load_config({"HOME": str(tmp_path)}).settings.models.providers["local"]
    assert (_config(tmp_path)[0], provider.base_url) == ("local/qwen3", server.url)
    assert provider.api_key == "sk-bees"


def test_a_key_can_be_set_later(tmp_path: Path, nobody: dict[str, str]) -> None:
    """Without a key the known models of a provider are offered; nothing is called a refused key."""
    with (
        ProviderServer(expected_key="sk-bees") as server,
        Terminal(tmp_path, "init", **nobody, OPENAI_BASE_URL=server.url) as terminal,
    ):
        up_to_the_model(terminal, is_new=True)
        terminal.wait_for("1  OpenAI")
        terminal.type("1\r")
        terminal.wait_for("blank to set it later): ")
        terminal.type("\r")
        terminal.wait_for("OpenAI did not send its list of models. These are known:")
        terminal.wait_for("1  gpt-5-mini")
        terminal.type("\r")
        terminal.wait_for("openai/gpt-5-mini did not answer: ")
        terminal.wait_for("blank to go back): ")
        terminal.type("\r")
        terminal.wait_for("anyway")
        terminal.type("y\r")
        terminal.wait_for("Also reach it by Telegram")
        terminal.type("\r")
        terminal.wait_for("Model      openai/gpt-5-mini")
        assert terminal.exit_code() == 0
        assert "refused the key" not in terminal.shown


def test_a_refused_key_is_asked_for_anew(tmp_path: Path, nobody: dict[str, str]) -> None:
    """Both where the models are listed and where one is tried; the new one replaces that of `.env`."""
    (tmp_path / ".nacre").mkdir()
    kept = tmp_path / ".nacre" / ".env"
    kept.write_text("OPENAI_API_KEY=sk-wrong\n")
    settings = {"models": {"providers": {"openai": {"apiKey": "${OPENAI_API_KEY}"}}}}
    (tmp_path / ".nacre" / "nacre.json5").write_text(json.dumps(settings))
    with ProviderServer(models=["gpt-5-mini"], expected_key="sk-bees") as server:
        server.reply("ready")
        with Terminal(tmp_path, "init", **nobody, OPENAI_BASE_URL=server.url) as terminal:
            up_to_the_model(terminal)
            terminal.wait_for("Which model")
            terminal.type("openai/gpt-5-mini\r")
            terminal.wait_for("openai/gpt-5-mini did not answer: ")
            terminal.wait_for("in place of the refused one")
            terminal.wait_for("go back): ")
            terminal.type("\r")
            terminal.wait_for("anyway")
            terminal.type("n\r")
            terminal.wait_for("1  OpenAI")
            terminal.type("1\r")
            terminal.wait_for("OpenAI refused the key.")
            terminal.wait_for("go back): ")
            terminal.type("sk-bees\r")
            terminal.wait_for("It is stored in ~/.nacre/.env")
            terminal.wait_for("1  gpt-5-mini")
            terminal.type("\r")
            terminal.wait_for("openai/gpt-5-mini answered in")
            terminal.type("k\r")
            terminal.wait_for("Also reach it by Telegram")
            terminal.type("n\r")
            assert terminal.exit_code() == 0

    assert kept.read_text() == "OPENAI_API_KEY='sk-bees'\n"
    assert _config(tmp_path)[2] == "sk-bees"


def test_a_server_with_a_key_without_questions(tmp_path: Path, nobody: dict[str, str]) -> None:
    """The key is kept apart; where it is missing or wrong, nothing is written and the exit code is 2."""
    with ProviderServer(models=["qwen3"], expected_key="sk-desk") as server:
        server.reply("ready")
        at = ("init", "--address", server.url)
        missing = run_nacre(tmp_path, *at, **nobody)
        wrong = run_nacre(tmp_path, *at, "--key-from", "DESK", DESK="sk-bees", **nobody)
        unset = run_nacre(tmp_path, *at, "--key-from", "DESK", **nobody)
        left = [(tmp_path / ".nacre" / name).exists() for name in (".env", "nacre.json5")]
        right = run_nacre(tmp_path, *at, "--key-from", "DESK", DESK="sk-desk", **nobody)

    assert [run.returncode for run in (missing, wrong, unset, right)] == [2, 2, 2, 0]
    assert ("--key-from" in missing.stderr, "refused the key in DESK" in wrong.stderr) == (True, True)
    assert left == [False, False]
    assert _config(tmp_path) == ("local/qwen3", "", "sk-desk")
    assert (tmp_path / ".nacre" / ".env").read_text() == "DESK='sk-desk'\n"


def test_a_bot_without_questions_is_told_with_the_next_step(tmp_path: Path, nobody: dict[str, str]) -> None:
    """The token is kept apart, and `nacre serve` is named."""
    run = run_nacre(tmp_path, "init", "--yes", "--telegram-token-from", "BOT", BOT="123:abc", **nobody)
    assert "The bot's token is stored. Run `nacre serve` and write to the bot" in run.stderr


def test_an_address_is_a_model_for_one_run(tmp_path: Path, nobody: dict[str, str]) -> None:
    """The server's first model answers, under its own name."""
    with ProviderServer(models=["bge-m3", "qwen3"]) as server:
        server.reply("Here.")
        run = run_nacre(tmp_path, "send", "-m", "Hello", NACRE_MODEL=server.url, **nobody)
    assert "Here." in run.stdout
    assert server.requests[0]["model"] == "qwen3"


@pytest.mark.parametrize(
    ("name", "meant"),
    [("dsek/qwen3", "desk/qwen3"), ("opnai/gpt-5", "openai/gpt-5"), ("qwen3", "as in openai/gpt-5-mini")],
)
def test_a_name_that_leads_nowhere_is_told_at_once(tmp_path: Path, name: str, meant: str) -> None:
    """With the nearest; nobody is asked."""
    settings = {"models": {"providers": {"desk": {"baseUrl": "http://127.0.0.1:9/v1"}}}}
    (tmp_path / ".nacre").mkdir()
    (tmp_path / ".nacre" / "nacre.json5").write_text(json.dumps(settings))
    run = run_nacre(tmp_path, "send", "--model", name, "-m", "Hello")

    assert run.returncode != 0
    assert meant in run.stderr


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
