"""Installed extensions: listed without running them, loaded when the settings say so, each by itself."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.cli.program import run_nacre
from tests.runtime.agents import write_settings
from tests.runtime.extensions.packages import install, listed, told

GOOD = """
import nacre

@nacre.tool
def {tool}() -> str:
    "Says hello."
    return "hello"

@nacre.prompt_part
def {tool}_part(chat: nacre.ToolChat) -> str:
    return "## From {tool}"

class Extension:
    def register(self, host):
        host.tool({tool})
        host.prompt_part({tool}_part)

extension = Extension()
"""
EXPLODES = "raise RuntimeError('it was run')\n"
COMMAND = """
import nacre

@nacre.command("status", help="say how it is")
def status(context):
    return "well"

def register(host):
    host.command(status)
"""


def switched_on(home: Path, *names: str, **plugins: Any) -> None:
    entries = {name: {"enabled": True} for name in names}
    write_settings(home / ".nacre", {"plugins": {"entries": entries, **plugins}})


def test_what_is_installed_is_listed_without_running_it(tmp_path: Path) -> None:
    """On, off and broken, each with its reason; a package that breaks when it is imported shows no trace."""
    home, site = tmp_path / "home", tmp_path / "site"
    home.mkdir()
    install(site, "bees", EXPLODES, manifest={"description": "Weighs\nhives."})
    install(site, "ants", EXPLODES, manifest={})
    install(site, "wasps", EXPLODES)
    install(site, "flies", EXPLODES, manifest="{")
    install(site, "moths", EXPLODES, manifest={"id": "other"})
    install(site, "engine", EXPLODES, manifest={"kind": "memory"})
    switched_on(home, "bees", "moths")

    found = listed(home, site)
    text = run_nacre(home, "admin", "extensions", PYTHONPATH=str(site))

    assert {name: item["state"] for name, item in found.items() if item["package"] != "nacre"} == {
        "memory-core": "on",
        "ants": "off",
        "bees": "on",
        "engine": "off",
        "flies": "broken",
        "moths": "broken",
        "wasps": "broken",
    }
    assert found["bees"] == {
        "id": "bees",
        "state": "on",
        "reason": "plugins.entries.bees.enabled is true",
        "kind": None,
        "version": "0.3",
        "package": "nacre-bees",
        "description": "Weighs hives.",
    }
    assert found["ants"]["reason"] == "nothing names it: set plugins.entries.ants.enabled to true"
    assert "plugins.slots.memory" in found["engine"]["reason"]
    assert found["wasps"]["reason"] == "Its package 'nacre_wasps' has no nacre.extension.json."
    assert found["flies"]["reason"].startswith("nacre.extension.json is not JSON: ")
    assert found["moths"]["reason"] == "Its entry point is named 'moths', but its manifest 'other'."
    assert text.returncode == 0
    assert "bees            on      0.3 · Weighs hives.\n" in text.stdout
    assert {"telegram", "backup", "memory-lancedb"} <= set(found)
    assert (found["telegram"]["state"], found["backup"]["state"]) == ("off", "on")


def test_a_package_cannot_take_the_place_of_a_built_in_extension(tmp_path: Path) -> None:
    """An installed package that calls itself `telegram` changes nothing about the channel."""
    home, site = tmp_path / "home", tmp_path / "site"
    home.mkdir()
    install(site, "telegram", EXPLODES, manifest={"kind": "channel"})

    assert listed(home, site)["telegram"]["package"] == "nacre"


TERMINAL = """
import click
@click.command("weigh")
def command():
    "Weigh a hive."
    click.echo("41 kg")
def register(host):
    pass
"""


def test_an_extension_that_is_on_adds_a_terminal_command(tmp_path: Path) -> None:
    """The command of the manifest runs with its examples; one that is off has none, and is not imported."""
    home, site = tmp_path / "home", tmp_path / "site"
    home.mkdir()
    weigh = {"entry": "nacre_bees:command", "help": "Weigh.", "examples": {"": ["nacre weigh oak"]}}
    install(site, "bees", TERMINAL, manifest={"commands": {"weigh": weigh}})
    unknown = {"entry": "nacre_ants:command", "help": "Count."}
    install(site, "ants", EXPLODES, manifest={"commands": {"count": unknown}})
    switched_on(home, "bees")

    weighed = run_nacre(home, "weigh", PYTHONPATH=str(site))
    help_text = run_nacre(home, "weigh", "--help", PYTHONPATH=str(site))
    counted = run_nacre(home, "count", PYTHONPATH=str(site))

    assert (weighed.returncode, weighed.stdout) == (0, "41 kg\n")
    assert "nacre weigh oak" in help_text.stdout
    assert (counted.returncode, "No such command 'count'" in counted.stderr) == (2, True)


def test_a_channel_in_the_settings_adds_its_terminal_command(tmp_path: Path) -> None:
    """A package with a channel is on where `channels` names it, for the terminal as for `nacre serve`."""
    home, site = tmp_path / "home", tmp_path / "site"
    home.mkdir()
    weigh = {"entry": "nacre_bees:command", "help": "Weigh."}
    install(site, "bees", TERMINAL, manifest={"kind": "channel", "commands": {"bees weigh": weigh}})

    before = run_nacre(home, "bees", "weigh", PYTHONPATH=str(site))
    write_settings(home / ".nacre", {"channels": {"bees": {}}})
    after = run_nacre(home, "bees", "weigh", PYTHONPATH=str(site))

    assert (before.returncode, after.returncode, after.stdout) == (2, 0, "41 kg\n")


def test_nothing_is_loaded_that_the_settings_do_not_name(tmp_path: Path) -> None:
    """An extension that is only installed is neither imported nor told of."""
    home, site = tmp_path / "home", tmp_path / "site"
    home.mkdir()
    install(site, "bees", EXPLODES, manifest={})

    came = told(home, site, "hi")

    assert (came["tools"], came["imported"]) == ([], [])
    assert not [notice for notice in came["notices"] if "bees" in notice]


def test_a_broken_extension_takes_nothing_along(tmp_path: Path) -> None:
    """Each of them is told with a sentence and left out; the good one is there."""
    home, site = tmp_path / "home", tmp_path / "site"
    home.mkdir()
    install(site, "a_good", GOOD.format(tool="greet"), manifest={})
    install(site, "b_twin", GOOD.format(tool="greet"), manifest={})
    install(site, "explodes", EXPLODES, manifest={})
    install(site, "exits", "raise SystemExit(3)\n", manifest={})
    install(site, "nothing", "", manifest={})
    install(
        site,
        "raises",
        "def register(host):\n    raise ValueError('no harbour')\n",
        manifest={},
        entry="register",
    )
    hooked = "def register(host):\n    host.hook('before_tol', print)\n"
    install(site, "hooked", hooked, manifest={}, entry="register")
    install(site, "takes", GOOD.format(tool="read"), manifest={})
    install(site, "commands", COMMAND, manifest={}, entry="register")
    names = (
        "commands",
        "a_good",
        "b_twin",
        "explodes",
        "exits",
        "hooked",
        "nothing",
        "raises",
        "takes",
        "gone",
    )
    switched_on(home, *names, "gone")

    came = told(home, site, "hi")

    assert came["replies"] == ["Yes."]
    assert came["tools"] == ["greet"]
    assert came["stable"].count("## From greet") == 1
    expected = {
        "The extension 'b_twin' was not loaded. Its tool 'greet' has a name that is already in use.",
        "The extension 'explodes' was not loaded. It could not be loaded: RuntimeError: it was run.",
        "The extension 'exits' was not loaded. It could not be loaded: SystemExit: 3.",
        "The extension 'hooked' was not loaded. It could not be loaded: ValueError: There is no hook named "
        "'before_tol'. Did you mean 'before_tool'?.",
        "The extension 'takes' was not loaded. Its tool 'read' has a name that is already in use.",
        "The extension 'commands' was not loaded. There are two chat commands '/status'. "
        "Give yours another name: @nacre.command('another-name', …).",
        "The settings name the extension 'gone', which is not installed.",
    }
    assert expected <= set(came["notices"])
    for name in ("nothing", "raises"):
        assert any(notice.startswith(f"The extension {name!r} was not loaded.") for notice in came["notices"])


def test_settings_that_do_not_fit_are_told_without_their_values(tmp_path: Path) -> None:
    """The list and the agent say which key is wrong; a secret in it is shown by neither."""
    home, site = tmp_path / "home", tmp_path / "site"
    home.mkdir()
    schema = {
        "type": "object",
        "required": ["harbour"],
        "additionalProperties": False,
        "properties": {"harbour": {"type": "string"}, "apiKey": {"type": "string", "pattern": "^sk-"}},
    }
    install(site, "bees", GOOD.format(tool="greet"), manifest={"configSchema": schema})
    install(site, "ants", GOOD.format(tool="march"), manifest={})
    config = {"apiKey": "topsecret", "colour": "red"}
    entries = {"bees": {"enabled": True, "config": config}, "ants": {"enabled": True, "config": {"legs": 6}}}
    write_settings(home / ".nacre", {"plugins": {"entries": entries}})

    found, came = listed(home, site), told(home, site, "hi")

    reason = found["bees"]["reason"]
    assert found["bees"]["state"] == "broken"
    assert "plugins.entries.bees.config needs harbour." in reason
    assert "plugins.entries.bees.config has unknown keys: colour. Known: apiKey, harbour." in reason
    assert "plugins.entries.bees.config.apiKey does not fit its rule pattern: '^sk-'." in reason
    assert "topsecret" not in reason
    assert found["ants"]["reason"] == "plugins.entries.ants.config has unknown keys: legs. Known: none."
    assert came["tools"] == []
    assert any(notice.startswith("The extension 'bees' was not loaded. ") for notice in came["notices"])
    assert "topsecret" not in str(came["notices"])
