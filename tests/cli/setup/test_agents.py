"""`nacre admin agents`, and `--agent` with the other commands."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.program import run_here, run_nacre

LIST = [{"id": "home", "default": True, "name": "Zuhause 家"}, {"id": "work", "model": "openai/gpt-4o"}]


def _listed(home: Path) -> Path:
    """Two agents in the settings of a home folder; gives its state folder."""
    state = home / ".nacre"
    state.mkdir(exist_ok=True)
    settings = {"agents": {"defaults": {"memorySearch": {"provider": "none"}}, "list": LIST}}
    (state / "nacre.json5").write_text(json.dumps(settings), encoding="utf-8")
    return state


def test_the_agents_are_listed(tmp_path: Path) -> None:
    """For people as a table, for scripts as JSON with OpenClaw's names; without a list there is `main`."""
    assert "main (default)" in run_here(tmp_path, "admin", "agents").stdout
    state = _listed(tmp_path)

    shown = run_here(tmp_path, "admin", "agents")
    told = json.loads(run_here(tmp_path, "admin", "agents", "list", "--json").stdout)

    assert shown.stdout.splitlines() == [
        "AGENT           NAME        MODEL          WORKSPACE",
        "home (default)  Zuhause 家  offline        ~/.nacre/workspace",
        "work            -           openai/gpt-4o  ~/.nacre/workspace-work",
    ]
    assert [agent["id"] for agent in told] == ["home", "work"]
    assert told[1] == {
        "id": "work",
        "name": None,
        "isDefault": False,
        "workspace": str(state / "workspace-work"),
        "model": "openai/gpt-4o",
    }


def test_every_command_is_about_the_agent_that_is_named(tmp_path: Path) -> None:
    """send, sessions, memory and init, with the option before or behind them, or with the variable."""
    state = _listed(tmp_path)
    model = {"NACRE_MODEL": ""}
    settings = (state / "nacre.json5").read_text(encoding="utf-8")
    (state / "nacre.json5").write_text(settings.replace('"openai/gpt-4o"', '""'), encoding="utf-8")

    sent = run_nacre(tmp_path, "--agent", "work", "send", "-m", "Remember that the kiln is cold.", **model)
    known = run_nacre(tmp_path, "send", "-m", "What about the kiln?", NACRE_AGENT="Work", **model)
    unknown = run_nacre(tmp_path, "send", "-m", "What about the kiln?", **model)

    assert sent.returncode == known.returncode == unknown.returncode == 0, sent.stderr
    assert "kiln is cold" in known.stdout
    assert "kiln is cold" not in unknown.stdout
    assert "agent:work:main" in run_here(tmp_path, "sessions", "show", "main", "--agent", "work").stdout
    assert "agent:home:main" in run_here(tmp_path, "sessions", "show", "main").stdout
    assert "kiln is cold" in run_here(tmp_path, "memory", "search", "kiln", "--agent", "work").stdout
    assert "kiln is cold" not in run_here(tmp_path, "memory", "search", "kiln").stdout
    status = json.loads(run_here(tmp_path, "memory", "status", "--json", "--agent", "work").stdout)
    assert status[0]["agentId"] == "work"
    assert status[0]["status"]["dbPath"] == str(state / "memory" / "work.sqlite")
    assert "(work)" in run_here(tmp_path, "memory", "index", "--agent", "work").stdout
    made = run_here(tmp_path, "init", "--agent", "work")
    assert "Workspace  ~/.nacre/workspace-work" in made.stdout
    assert "nacre --agent work chat" in made.stdout


@pytest.mark.parametrize(
    "command", [("send", "-m", "hello"), ("chat",), ("sessions", "list"), ("admin", "agents")]
)
def test_an_unknown_agent_is_a_sentence_with_the_known_ones(tmp_path: Path, command: tuple[str, ...]) -> None:
    """Exit code 2, as for other wrong usage, and nothing is made for it."""
    state = _listed(tmp_path)

    run = run_nacre(tmp_path, *command, NACRE_AGENT="wrok")

    assert run.returncode == 2
    assert "'wrok'" in run.stderr
    assert not (state / "agents").exists()


def test_a_key_of_another_agent_names_that_agent(tmp_path: Path) -> None:
    """`agent:work:main` is not looked for, and not begun, among the sessions of `home`."""
    _listed(tmp_path)

    shown = run_here(tmp_path, "sessions", "show", "agent:work:main")
    sent = run_nacre(tmp_path, "send", "--session", "agent:work:main", "-m", "hello")

    assert shown.returncode == sent.returncode == 1
    assert "'agent:work:main'" in shown.stderr
    assert "--agent work" in shown.stderr
    assert "agent 'work'" in sent.stderr


def test_a_workspace_in_the_environment_is_the_default_agents(tmp_path: Path) -> None:
    """Whoever has it exported for one agent does not give it to the other; that is told."""
    _listed(tmp_path)

    run = run_nacre(tmp_path, "init", "--agent", "work", NACRE_WORKSPACE=str(tmp_path / "notes"))

    assert "Workspace  ~/.nacre/workspace-work" in run.stdout
    assert "NACRE_WORKSPACE" in run.stderr
    assert "Workspace  ~/notes" in run_here(tmp_path, "init", "--workspace", str(tmp_path / "notes")).stdout
