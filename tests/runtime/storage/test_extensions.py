"""A storage backend of somebody else keeps everything; one that cannot be used is an error, never files."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.cli.program import run_nacre
from tests.runtime.agents import write_settings
from tests.runtime.extensions.packages import install, listed

VAULT = """
from dataclasses import dataclass, replace
from pathlib import Path
from nacre.runtime.settings.disk.agent_folders import AgentFolders
from nacre.runtime.storage.storage import FileStorage

@dataclass
class Home:
    state_dir: Path
    folders: AgentFolders

class Vault(FileStorage):
    how_to_bring = "Copy the folder"

def open_storage(home):
    folder = Path(home.folders.storage.settings["folder"])
    own = folder / home.folders.agent_id
    for made in (folder / "locks", own / "notes"):
        made.mkdir(parents=True, exist_ok=True)
    folders = replace(
        home.folders,
        workspace=own / "notes",
        agent_dir=own,
        sessions_file=own / "sessions.json",
        index_file=own / "index.sqlite",
    )
    return Vault(Home(folder, folders))
"""
BREAKS = "def open_storage(home):\n    raise RuntimeError('no disk')\n"
SCHEMA = {"type": "object", "required": ["folder"], "properties": {"folder": {"type": "string"}}}


def _chosen(home: Path, settings: dict[str, Any] | None = None, **plugins: Any) -> None:
    entries = {} if settings is None else {"vault": {"config": settings}}
    written = {"storage": {"driver": "vault"}, "plugins": {"entries": entries, **plugins}}
    write_settings(home / ".nacre", written)


def test_everything_lies_with_the_backend_that_is_chosen(tmp_path: Path) -> None:
    """Notes, conversations, index and approvals; nothing of them is on this machine otherwise."""
    home, site, vault = tmp_path / "home", tmp_path / "site", tmp_path / "vault"
    home.mkdir()
    install(site, "vault", VAULT, manifest={"kind": "storage", "configSchema": SCHEMA}, entry="open_storage")
    _chosen(home, {"folder": str(vault)})

    said = run_nacre(home, "send", "Remember that my boat is called Halcyon.", PYTHONPATH=str(site))
    found = run_nacre(home, "memory", "search", "boat", "--json", PYTHONPATH=str(site))
    sessions = run_nacre(home, "sessions", "list", "--json", PYTHONPATH=str(site))
    status = run_nacre(home, "status", PYTHONPATH=str(site))
    pairing = run_nacre(home, "admin", "access", "list", PYTHONPATH=str(site))

    assert said.returncode == 0, said.stderr
    assert "Halcyon" in found.stdout, found.stderr
    assert len(json.loads(sessions.stdout)["sessions"]) == 1, sessions.stderr
    assert (status.returncode, pairing.returncode) == (0, 0), status.stderr + pairing.stderr
    assert listed(home, site)["vault"]["state"] == "on"
    assert {"notes", "sessions.json", "index.sqlite"} <= {path.name for path in (vault / "main").iterdir()}
    own = home / ".nacre"
    assert [path for path in own.rglob("*") if path.suffix in (".md", ".jsonl", ".sqlite")] == []


@pytest.mark.parametrize(
    ("code", "manifest", "settings", "plugins", "sentence"),
    [
        (None, {}, {}, {}, "no installed extension stores data under this name"),
        (VAULT, {"kind": "channel"}, {}, {}, "no installed extension stores data under this name"),
        (
            "raise ImportError('no driver')",
            {"kind": "storage"},
            {},
            {},
            "could not be loaded: ImportError: no driver",
        ),
        (BREAKS, {"kind": "storage"}, {}, {}, "which could not be opened: RuntimeError: no disk"),
        ("open_storage = 3", {"kind": "storage"}, {}, {}, "has no open_storage"),
        (VAULT, {"kind": "storage", "configSchema": SCHEMA}, {}, {}, "plugins.entries.vault.config"),
        (VAULT, {"kind": "storage"}, {}, {"deny": ["vault"]}, "plugins switches this extension off"),
        (VAULT, {"kind": "storage"}, {}, {"enabled": False}, "plugins switches this extension off"),
    ],
)
def test_one_that_cannot_be_used_is_an_error(
    tmp_path: Path, code: str | None, manifest: Any, settings: Any, plugins: Any, sentence: str
) -> None:
    """A sentence and exit code 2; files do not stand in for it, and nothing that was said lies anywhere."""
    home, site = tmp_path / "home", tmp_path / "site"
    home.mkdir()
    if code is not None:
        install(site, "vault", code, manifest=manifest, entry="open_storage")
    _chosen(home, settings, **plugins)

    ended = run_nacre(home, "send", "Remember that my boat is called Halcyon.", PYTHONPATH=str(site))

    assert (ended.returncode, ended.stdout) == (2, "")
    assert "storage.driver is 'vault'" in ended.stderr
    assert sentence in ended.stderr
    assert "Traceback" not in ended.stderr
    assert [path for path in home.rglob("*") if path.suffix in (".md", ".jsonl", ".sqlite")] == []


def test_doctor_tells_of_one_that_cannot_be_used(tmp_path: Path) -> None:
    """As a problem among what else it looked at; it does not look at what the backend keeps."""
    _chosen(tmp_path)

    ended = run_nacre(tmp_path, "doctor", "--json")

    found = {each["area"]: each for each in json.loads(ended.stdout)["findings"]}
    assert ended.returncode == 1
    assert found["storage"]["state"] == "problem"
    assert "storage.driver is 'vault'" in found["storage"]["text"]
    assert "sessions" not in found
    assert len(found) > 1
