"""`nacre import openclaw` on a state folder as OpenClaw leaves it."""

from __future__ import annotations

import json
import stat
from pathlib import Path

import pytest

from nacre.runtime.settings.disk.settings_file import settings_as_written
from tests.cli.program import run_here
from tests.extensions.importers import sources
from tests.extensions.importers.results import import_report, numbers, reasons, workspace


def _files(root: Path) -> dict[str, bytes]:
    return {str(path.relative_to(root)): path.read_bytes() for path in root.rglob("*") if path.is_file()}


def test_what_comes_over_and_what_does_not_add_up_to_the_source(tmp_path: Path) -> None:
    """Every file, note, session, message and setting is counted once, and what is skipped says why."""
    source = sources.openclaw(tmp_path / ".openclaw")
    before = _files(source)
    told = import_report(tmp_path, "openclaw", source)
    assert numbers(told, "files") == (len(before), 8, 0, 2)
    assert numbers(told, "notes") == (5, 4, 0, 1)
    assert numbers(told, "sessions") == (2, 2, 0, 0)
    assert numbers(told, "messages") == (5, 4, 0, 1)
    assert numbers(told, "settings") == (9, 5, 0, 4)
    assert [*reasons(told, "messages")] == ["the line is incomplete"]
    assert _files(source) == before


def test_a_dry_run_tells_the_same_and_writes_nothing(tmp_path: Path) -> None:
    """What a dry run says is what the import then does."""
    source = sources.openclaw(tmp_path / ".openclaw")
    planned = import_report(tmp_path, "openclaw", source, "--dry-run")
    made = [path for path in (tmp_path / ".nacre").rglob("*") if path.is_file()]
    assert [path.name for path in made] == ["nacre.log"]
    assert {**import_report(tmp_path, "openclaw", source), "dryRun": True} == planned


@pytest.mark.parametrize(("program", "file"), [("openclaw", "openclaw.json"), ("hermes", "config.yaml")])
def test_settings_without_any_are_told_as_skipped(tmp_path: Path, program: str, file: str) -> None:
    """They count, and are no flaw that the owner is asked to report."""
    source = tmp_path / "there"
    source.mkdir()
    (source / file).write_text("{}", encoding="utf-8")

    assert reasons(import_report(tmp_path, program, source), "files")["it contains no settings"] == [file]


def test_twice_brings_nothing_twice(tmp_path: Path) -> None:
    """A second import finds everything here, also where the owner went on with a note meanwhile."""
    source = sources.openclaw(tmp_path / ".openclaw")
    import_report(tmp_path, "openclaw", source)
    note = tmp_path / ".nacre/workspace/MEMORY.md"
    note.write_text(note.read_text() + "- And it is green.\n")
    before = workspace(tmp_path)
    told = import_report(tmp_path, "openclaw", source)
    assert all(counts["imported"] == 0 for counts in told["counts"].values())
    assert workspace(tmp_path) == before


def test_days_stay_days_and_nothing_is_overwritten(tmp_path: Path) -> None:
    """A day that both have gets what it lacks; other notes go beside, but for a template nobody touched."""
    source = sources.openclaw(tmp_path / ".openclaw")
    run_here(tmp_path, "init", "--yes")
    own = tmp_path / ".nacre/workspace"
    (own / "MEMORY.md").write_text("- My own words.\n")
    (own / "memory/2026-01-20.md").write_text("- Bought rope.\n")
    told = import_report(tmp_path, "openclaw", source)
    notes = workspace(tmp_path)
    assert notes["MEMORY.md"] == "- My own words.\n"
    assert "Halcyon" in notes["memory/imports/openclaw/MEMORY.md"]
    assert notes["memory/2026-01-20.md"] == "- Bought rope.\n- Saw Dr. Alder in Porto.\n"
    assert notes["SOUL.md"] == "Be brief, and a little dry.\n"
    assert "openclaw" not in notes["AGENTS.md"]
    assert {each["path"] for each in told["beside"]} == {
        "imports/openclaw/AGENTS.md",
        "memory/imports/openclaw/MEMORY.md",
    }


def test_keys_go_where_keys_are_kept_and_stand_nowhere_else(tmp_path: Path) -> None:
    """A key in the settings or in a note ends up in the environment file of mode 600 alone."""
    run_here(tmp_path, "init", "--yes")
    settings = tmp_path / ".nacre/nacre.json5"
    settings.write_text("{\n  // mine\n  agents: {defaults: {contextTokens: 50000}},\n}\n")
    told = import_report(tmp_path, "openclaw", sources.openclaw(tmp_path / ".openclaw"))
    text, kept = settings.read_text(), tmp_path / ".nacre/.env"
    assert "// mine" in text
    assert "contextTokens: 50000" in text
    assert 'apiKey: "${OPENAI_API_KEY}"' in text
    assert "it already has another value here" in reasons(told, "settings")
    assert f"OPENAI_API_KEY='{sources.KEY}'" in kept.read_text()
    assert stat.S_IMODE(kept.stat().st_mode) == 0o600
    holding = [
        path.name
        for path in (tmp_path / ".nacre").rglob("*")
        if path.is_file() and sources.KEY.encode() in path.read_bytes()
    ]
    assert holding == [".env"]
    assert sources.KEY not in json.dumps(told)


def test_keys_go_into_the_keyring_where_that_is_wanted(keyring_file: Path, tmp_path: Path) -> None:
    """With `--keys keyring` the settings name each key's place there, and a second run finds it."""
    source = sources.openclaw(tmp_path / ".openclaw")
    import_report(tmp_path, "openclaw", source, "--keys", "keyring")
    text = (tmp_path / ".nacre/nacre.json5").read_text()
    assert 'apiKey: "${keyring:OPENAI_API_KEY}"' in text
    assert 'apiKey: "${keyring:ANTHROPIC_API_KEY}"' in text
    assert keyring_file.stat().st_size > 0
    assert not (tmp_path / ".nacre/.env").exists()
    assert numbers(import_report(tmp_path, "openclaw", source, "--keys", "keyring"), "settings") == (
        9,
        0,
        5,
        4,
    )


def test_sessions_are_shown_searched_and_gone_on_with(tmp_path: Path) -> None:
    """An imported session has its key, is found by the search where that looks at sessions, and goes on."""
    source = sources.openclaw(tmp_path / ".openclaw")
    import_report(tmp_path, "openclaw", source)
    run_here(tmp_path, "config", "unset", "agents.defaults.model")
    search = '{sources: ["memory", "sessions"], experimental: {sessionMemory: true}}'
    assert run_here(tmp_path, "config", "set", "agents.defaults.memorySearch", search).returncode == 0
    shown = run_here(tmp_path, "sessions", "show", "main").stdout
    assert "User: Where is my kayak stored?" in shown
    assert "In the shed at Setubal." in shown
    found = run_here(tmp_path, "memory", "search", "kayak").stdout
    assert sources.OPENCLAW_SESSION in found
    sent = run_here(tmp_path, "send", "-m", "/resume")
    assert sources.OPENCLAW_EARLIER[:8] in sent.stdout


def test_a_session_that_went_on_there_goes_on_here(tmp_path: Path) -> None:
    """What was added to a transcript since the last import is added here too; other words here stay."""
    source = sources.openclaw(tmp_path / ".openclaw")
    transcript = source / "agents/main/sessions" / f"{sources.OPENCLAW_SESSION}.jsonl"
    transcript.write_text(transcript.read_text().replace('{"type":"mess', ""))
    import_report(tmp_path, "openclaw", source)
    said = {"role": "user", "content": [{"type": "text", "text": "And the oars?"}], "timestamp": 1}
    line = {
        "type": "message",
        "id": "cccccccc",
        "parentId": "bbbbbbbb",
        "timestamp": "2026-01-20T09:05:00.000Z",
    }
    with transcript.open("a") as file:
        file.write(json.dumps({**line, "message": said}) + "\n")
    assert numbers(import_report(tmp_path, "openclaw", source), "messages") == (5, 1, 4, 0)
    here = tmp_path / ".nacre/agents/main/sessions" / transcript.name
    assert here.read_bytes() == transcript.read_bytes()
    with here.open("a") as file:
        file.write(json.dumps({**line, "id": "dddddddd", "message": said}) + "\n")
    kept = here.read_bytes()
    with transcript.open("a") as file:
        file.write(json.dumps({**line, "id": "eeeeeeee", "message": said}) + "\n")
    told = import_report(tmp_path, "openclaw", source)
    assert numbers(told, "messages") == (6, 0, 5, 1)
    assert [*reasons(told, "messages")] == ["the session continued both here and there"]
    assert here.read_bytes() == kept


def test_sessions_of_newer_versions_come_out_of_their_database(tmp_path: Path) -> None:
    """Where OpenClaw keeps sessions in a database they are read there, and a file of one counts once."""
    source = sources.openclaw_database(sources.openclaw(tmp_path / ".openclaw"))
    told = import_report(tmp_path, "openclaw", source)
    assert numbers(told, "sessions") == (3, 2, 0, 1)
    assert numbers(told, "messages") == (4, 4, 0, 0)
    assert [*reasons(told, "sessions")] == ["it is in the database, which is imported instead"]
    shown = run_here(tmp_path, "sessions", "show", "main").stdout
    assert "In the shed at Setubal." in shown
    again = import_report(tmp_path, "openclaw", source)
    assert all(counts["imported"] == 0 for counts in again["counts"].values())


def _naming(source: Path, workspace: str) -> Path:
    settings = source / "openclaw.json"
    settings.write_text(settings.read_text().replace("~/.openclaw/workspace", workspace))
    return source


def test_a_workspace_elsewhere_comes_along_where_the_owner_names_it(tmp_path: Path) -> None:
    """A workspace outside of the state folder needs `--from-workspace`; links in it are not followed."""
    source = _naming(sources.openclaw(tmp_path / ".openclaw"), "~/clawd")
    (source / "workspace").rename(tmp_path / "clawd")
    (tmp_path / "outside.md").write_text("a secret")
    (tmp_path / "clawd/link.md").symlink_to(tmp_path / "outside.md")
    unasked = import_report(tmp_path, "openclaw", source, "--dry-run")
    told = import_report(tmp_path, "openclaw", source, "--from-workspace", str(tmp_path / "clawd"))
    assert numbers(unasked, "notes") == (0, 0, 0, 0)
    assert numbers(told, "notes")[1] == 4
    assert reasons(told, "files")["it is a link, and links are not followed"] == ["workspace/link.md"]


def test_a_workspace_of_another_name_inside_of_the_folder_comes_along(tmp_path: Path) -> None:
    """Where the settings name a folder below the one that is imported, it is the workspace."""
    source = _naming(sources.openclaw(tmp_path / ".openclaw"), "~/.openclaw/workspace-home")
    (source / "workspace").rename(source / "workspace-home")
    assert numbers(import_report(tmp_path, "openclaw", source), "notes")[1] == 4


def test_foreign_settings_decide_nothing(tmp_path: Path) -> None:
    """No program, folder, address or owner comes along; what only tunes the assistant does."""
    source = sources.openclaw(tmp_path / ".openclaw")
    (source / "openclaw.json").write_text(
        """{
  agents: {defaults: {contextTokens: 90000, memorySearch: {
    extraPaths: ["/etc"], remote: {baseUrl: "http://a.test"}, query: {maxResults: 7}}}},
  commands: {ownerAllowFrom: ["telegram:666"]},
  http: {port: 8080, host: "0.0.0.0"},
  mcp: {servers: {x: {command: "sh", args: ["-c", "touch was-run"]}}},
  memory: {backend: "qmd", qmd: {command: "sh -c 'touch was-run'"}},
  models: {providers: {openai: {baseUrl: "http://a.test"}, ollama: {baseUrl: "http://localhost:11434"}}},
  session: {identityLinks: {ann: ["telegram:666"]}, idleMinutes: 90},
}"""
    )
    told = import_report(tmp_path, "openclaw", source)
    assert settings_as_written(tmp_path / ".nacre/nacre.json5") == {
        "agents": {"defaults": {"contextTokens": 90000, "memorySearch": {"query": {"maxResults": 7}}}},
        "models": {"providers": {"ollama": {"baseUrl": "http://localhost:11434"}}},
        "session": {"idleMinutes": 90},
    }
    assert "commands.ownerAllowFrom" in str(reasons(told, "settings"))


@pytest.mark.parametrize("is_dry", [True, False])
@pytest.mark.parametrize(
    "named",
    [
        "{home}/private",
        "~/private",
        "../private",
        "workspace/../../private",
        "{home}/.openclaw/../private",
        "link",
        "workspace/link",
        "credentials",
        "~/.openclaw/agents",
        "~/.openclaw",
        ".",
        "${{HOME}}/private",
        "circle",
        "nul\\u0000here",
    ],
)
def test_what_foreign_settings_name_is_not_read(tmp_path: Path, named: str, is_dry: bool) -> None:
    """A folder outside of the imported one, or one with its secrets, is listed by its path and not read."""
    source = sources.openclaw(tmp_path / ".openclaw")
    for folder in (tmp_path / "private", source / "credentials"):
        folder.mkdir()
        (folder / "id_rsa").write_text("PRIVATE KEY")
        (folder / "diary.md").write_text("a secret")
    (source / "link").symlink_to(tmp_path / "private")
    (source / "workspace/link").symlink_to(tmp_path / "private")
    (source / "circle").symlink_to(source / "circle")
    place = named.format(home=tmp_path)
    _naming(source, place)
    told = import_report(tmp_path, "openclaw", source, *(["--dry-run"] if is_dry else []))
    came = [path for path in (tmp_path / ".nacre").rglob("*") if path.is_file()]
    assert not any(b"PRIVATE KEY" in path.read_bytes() or b"a secret" in path.read_bytes() for path in came)
    listed = [name for names in reasons(told, "files").values() for name in names]
    assert place.replace("\\u0000", "\0") in listed
