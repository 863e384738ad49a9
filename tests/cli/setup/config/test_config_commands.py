"""`nacre config`: the settings in the owner's own file."""

from __future__ import annotations

import json
import stat
from pathlib import Path

import jsonschema
import pytest

from tests.cli.program import run_here, run_nacre
from tests.runtime.agents import write_settings

WRITTEN = """// mine
{
  agents: {
    defaults: {userTimezone: "Europe/Madrid", maxSteps: 7}, // where I live
    list: [{id: "home"}, {id: "work", maxSteps: 9}],
  },
  models: {providers: {openai: {apiKey: "${MY_KEY}", baseUrl: "http://127.0.0.1:9/v1"}}},
}
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """The settings file of a home folder, as its owner wrote it."""
    path = tmp_path / ".nacre" / "nacre.json5"
    path.parent.mkdir(mode=0o700)
    path.write_text(WRITTEN, encoding="utf-8")
    return path


def test_a_setting_is_set_and_taken_out_again(tmp_path: Path, file: Path) -> None:
    """Comments, order and ends of lines stay; after both the file is as it was, and its owner's alone."""
    said = run_here(tmp_path, "config", "set", "session.dmScope", "per-peer", MY_KEY="k-123456789")
    changed = file.read_text(encoding="utf-8")
    got = run_here(tmp_path, "config", "get", "session.dmScope", MY_KEY="k-123456789")
    taken = run_here(tmp_path, "config", "unset", "session", MY_KEY="k-123456789")

    assert said.stdout == "session.dmScope is set in ~/.nacre/nacre.json5.\n"
    assert got.stdout == "per-peer\n"
    assert changed == WRITTEN.replace("}},\n}\n", '}},\n  session: {\n    dmScope: "per-peer",\n  },\n}\n')
    assert taken.returncode == 0
    assert file.read_text(encoding="utf-8") == WRITTEN
    assert stat.S_IMODE(file.stat().st_mode) == 0o600


def test_ends_of_lines_and_a_read_only_mode_stay(tmp_path: Path, file: Path) -> None:
    """A file of Windows gets lines that end as its others do, also from an editor; read-only stays so."""
    file.write_bytes(WRITTEN.replace("\n", "\r\n").encode())
    file.chmod(0o444)

    run_here(tmp_path, "config", "set", "session.dmScope", "per-peer", MY_KEY="k-123456789")
    editor = 'sh -c \'echo "// end" >> "$0"\''
    ended = run_nacre(tmp_path, "config", "edit", EDITOR=editor, MY_KEY="k-123456789")

    lines = file.read_bytes().split(b"\n")
    assert ended.returncode == 0, ended.stderr
    assert b'    dmScope: "per-peer",\r' in lines
    assert b"// end\r" in lines
    assert all(line.endswith(b"\r") for line in lines[:-1])
    assert stat.S_IMODE(file.stat().st_mode) == 0o400


def test_a_text_stays_a_text(tmp_path: Path, file: Path) -> None:
    """A value that looks like a number is a text where the setting wants one."""
    run_here(tmp_path, "config", "set", "agents.list[work].name", "42", MY_KEY="k-123456789")
    run_here(tmp_path, "config", "set", "agents.list[work].maxSteps", "42", MY_KEY="k-123456789")

    assert '{id: "work", maxSteps: 42, name: "42"}' in file.read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("key", "value", "told"),
    [
        ("agents.defaults.maxStep", "3", "Did you mean agents.defaults.maxSteps?"),
        ("agents.defaults.maxSteps", "many", "agents.defaults.maxSteps: Input should be a valid integer"),
        ("agents.defaults.tools.deny", "order", "agents.defaults.tools.deny: a list […] belongs here"),
        ("agents.defaults.tools", "[1]", "agents.defaults.tools: an object {…} belongs here"),
        ("agents.list[1].id", "../home", "cannot name an agent"),
        ("agents.defaults.workspace", "${NOT_THERE}", "NOT_THERE, which is not set"),
        ("agents..x", "1", "is not a key"),
        (
            "agents.defaults.userTimezone",
            "Mars/Base",
            "userTimezone is 'Mars/Base', which is not an IANA time zone",
        ),
        ("agents.list[1].userTimezone", "Mars/Base", "which is not an IANA time zone"),
        ("session.store", "~/chats", "name a file that ends in .json"),
    ],
)
def test_what_nacre_could_not_start_with_is_not_written(
    tmp_path: Path, file: Path, key: str, value: str, told: str
) -> None:
    """A sentence that says so, exit code 2, and the file byte for byte as it was."""
    ended = run_nacre(tmp_path, "config", "set", key, value, MY_KEY="k-123456789")

    assert (ended.returncode, ended.stdout) == (2, "")
    assert told in " ".join(ended.stderr.split())
    is_a_key = key not in ("agents..x", "agents.defaults.maxStep")
    assert ended.stderr.startswith("Nothing was written.") == is_a_key
    assert file.read_text(encoding="utf-8") == WRITTEN


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ({"plugins": {"slots": {"memory": "honey"}}}, "honey"),
        (
            {"plugins": {"slots": {"memory": "memory-lancedb"}, "deny": ["memory-lancedb"]}},
            "plugins.deny names it",
        ),
        (
            {
                "plugins": {
                    "slots": {"memory": "memory-lancedb"},
                    "entries": {"memory-lancedb": {"config": {"x": 1}}},
                }
            },
            "memory-lancedb",
        ),
        ({"memory": {"backend": "qmd", "qmd": {"command": "no-such-qmd"}}}, "no-such-qmd"),
        ({"channels": {"pigeon": {}}}, "pigeon"),
    ],
)
def test_check_tells_what_would_be_left_out(tmp_path: Path, settings: dict[str, object], told: str) -> None:
    """Code 1, and `ok` is false, when an engine or a channel of the settings could not be used."""
    write_settings(tmp_path / ".nacre", settings)
    ended = run_nacre(tmp_path, "config", "check", "--json")

    answer = json.loads(ended.stdout)
    assert (ended.returncode, answer["ok"]) == (1, False)
    assert told in answer["problem"]


@pytest.mark.parametrize("key", ["mcp.servers.bees.env", "plugins.entries.bees.config"])
def test_explain_hides_what_may_be_a_secret_whatever_its_name(tmp_path: Path, key: str) -> None:
    """The variables of a tool server, and what an extension is told."""
    server, entry = {"command": "bees", "env": {"HIVE": "4711"}}, {"config": {"hive": "4711"}}
    settings = {"mcp": {"servers": {"bees": server}}, "plugins": {"entries": {"bees": entry}}}
    write_settings(tmp_path / ".nacre", settings)
    ended = run_here(tmp_path, "config", "explain", key, "--json")

    assert json.loads(ended.stdout)["value"] == "[hidden]"


def test_explain_says_where_a_value_comes_from(tmp_path: Path, file: Path) -> None:
    """A line of the file, an agent's own entry, a variable, the default; and what the setting is for."""

    def explained(key: str, agent: str = "home", **variables: str) -> dict[str, object]:
        ended = run_here(
            tmp_path, "--agent", agent, "config", "explain", key, "--json", MY_KEY="k-123456789", **variables
        )
        assert ended.returncode == 0, ended.stderr
        told: dict[str, object] = json.loads(ended.stdout)
        return told

    steps = explained("agents.defaults.maxSteps")
    assert (steps["value"], steps["default"], steps["from"]) == (7, 40, f"{file}, line 4")
    assert steps["meaning"]
    own = explained("agents.defaults.maxSteps", "work")
    assert (own["value"], own["from"]) == (9, f"{file}, line 5, for agent 'work'")
    model = explained("agents.defaults.model.primary", NACRE_MODEL="openai/x")
    assert (model["value"], model["from"]) == ("openai/x", "the environment variable NACRE_MODEL")
    assert explained("memory.citations")["from"] == "the default"
    assert explained("models.providers.openai.apiKey")["value"] == "[hidden]"
    assert (steps["type"], steps["counts"]) == ("whole number, from 1 to 1000", "at the next turn")
    assert explained("agents.list[work].maxSteps")["counts"] == "at the next turn"
    assert explained("channels.irc.enabled")["counts"] == "in nacre serve within seconds"
    section = explained("storage")
    assert section["counts"] == "at the next start"
    assert isinstance(section["below"], dict)
    assert "postgresql://" in section["below"]["url"]


def test_no_secret_is_shown(tmp_path: Path, file: Path) -> None:
    """Neither as it is written nor as the variable fills it in."""
    file.write_text(WRITTEN.replace("${MY_KEY}", "sk-plain-secret"), encoding="utf-8")
    for words in (["get"], ["get", "models"], ["get", "models.providers.openai.apiKey"], ["check"]):
        ended = run_here(tmp_path, "config", *words, MY_KEY="k-123456789")
        assert ended.returncode == 0, ended.stderr
        assert "sk-plain-secret" not in ended.stdout + ended.stderr


def test_check_tells_slips_and_unreadable_files(tmp_path: Path, file: Path) -> None:
    """What Nacre does not read, with what may be meant; a broken file has its sentence as JSON, too."""
    file.write_text("{agents: {defaults: {userTimezon: 'x'}}}", encoding="utf-8")
    slip = run_here(tmp_path, "config", "check")
    file.write_text("{agents: ", encoding="utf-8")
    broken = run_here(tmp_path, "config", "check", "--json")

    assert slip.returncode == 0
    assert "(did you mean agents.defaults.userTimezone?)" in " ".join(slip.stderr.split())
    assert broken.returncode == 2
    assert "is not JSON5" in json.loads(broken.stdout)["problem"]


def test_an_editor_never_breaks_the_settings(tmp_path: Path, file: Path) -> None:
    """A good text is written; a bad one is kept beside the file, which stays as it was."""
    editor = tmp_path / "editor"
    editor.write_text('#!/bin/sh\nprintf "%s" "$TEXT" > "$1"\n', encoding="utf-8")
    editor.chmod(0o700)

    good = run_nacre(tmp_path, "config", "edit", EDITOR=str(editor), TEXT="session: {dmScope: 'main'}")
    bad = run_nacre(tmp_path, "config", "edit", EDITOR=str(editor), TEXT="session: {")

    assert good.returncode == 0, good.stderr
    assert bad.returncode == 2
    assert file.read_text(encoding="utf-8") == "session: {dmScope: 'main'}"
    rejected = file.with_name("nacre.json5.rejected")
    assert rejected.read_text(encoding="utf-8") == "session: {"
    assert stat.S_IMODE(rejected.stat().st_mode) == 0o600


@pytest.mark.parametrize("refused", ["", "mkdir {}.rejected"])
def test_what_was_typed_survives_a_disk_that_refuses(tmp_path: Path, file: Path, refused: str) -> None:
    """The text is kept beside the file that cannot be written, or if that fails too in a temporary file."""
    editor, text, temporary = tmp_path / "editor", "session: {dmScope: 'main'}", tmp_path / "temporary"
    temporary.mkdir()
    steps = f"rm {file}; mkdir {file}; {refused.format(file)}"
    editor.write_text(f'#!/bin/sh\n{steps}\nprintf "%s" "{text}" > "$1"\n', encoding="utf-8")
    editor.chmod(0o700)

    ended = run_nacre(tmp_path, "config", "edit", EDITOR=str(editor), TMPDIR=str(temporary))

    assert ended.returncode == 2
    kept = next(temporary.glob("nacre-*.json5")) if refused else file.with_name("nacre.json5.rejected")
    assert kept.read_text(encoding="utf-8") == text
    assert stat.S_IMODE(kept.stat().st_mode) == 0o600
    assert str(kept) in "".join(ended.stderr.split("\n"))


def test_a_new_file_begins_with_an_example_that_can_be_used(tmp_path: Path) -> None:
    """Everything in it is a comment or empty; the file is its owner's alone."""
    ended = run_nacre(tmp_path, "config", "edit", EDITOR="sh -c 'echo >> \"$0\"'")
    file = tmp_path / ".nacre" / "nacre.json5"

    assert ended.returncode == 0, ended.stderr
    assert "anthropic" in file.read_text(encoding="utf-8")
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert run_here(tmp_path, "config", "check").stderr == ""


def test_a_link_to_the_settings_stays_a_link(tmp_path: Path, file: Path) -> None:
    """Settings often stand in a folder of their owner's, under git."""
    real = tmp_path / "dotfiles.json5"
    file.rename(real)
    file.symlink_to(real)

    run_here(tmp_path, "config", "set", "memory.bank.enabled", "true", MY_KEY="k-123456789")

    assert file.is_symlink()
    assert "bank: {\n      enabled: true," in real.read_text(encoding="utf-8")


def test_the_schema_holds_for_what_nacre_reads(tmp_path: Path) -> None:
    """Editors get the meaning of each key; a value of a wrong type does not fit."""
    schema = json.loads(run_here(tmp_path, "config", "schema").stdout)
    jsonschema.Draft202012Validator.check_schema(schema)
    validator = jsonschema.Draft202012Validator(schema)

    assert validator.is_valid({"agents": {"defaults": {"maxSteps": 3, "model": {"primary": "a/b"}}}})
    assert not validator.is_valid({"agents": {"defaults": {"maxSteps": "many"}}})
    steps = schema["$defs"]["AgentSettings"]["properties"]["maxSteps"]
    assert steps["description"]
