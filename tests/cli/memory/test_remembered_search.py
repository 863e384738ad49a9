"""What a search keeps of the settings, and when that holds no more."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from nacre.cli.memory.remembered_search import (
    KEPT_FILE,
    SETTLED_NS,
    SearchPlace,
    remember_search,
    remembered_search,
)
from nacre.runtime.recall.open_memory import search_settings
from nacre.runtime.settings.config import load_config

PLAIN = """{
  agents: {defaults: {
    userTimezone: "Europe/Berlin", memorySearch: {provider: "none", query: {maxResults: 2}}
  }},
  models: {providers: {openai: {apiKey: "${OPENAI_API_KEY}", baseUrl: "https://models.example"}}},
}"""
KEY = "sk-0123456789abcdefghij"


def _write(home: Path, text: str) -> None:
    file = home / ".nacre/nacre.json5"
    file.parent.mkdir(exist_ok=True)
    file.write_text(text, encoding="utf-8")


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    """A home with settings that can be kept."""
    _write(tmp_path, PLAIN)
    return {"HOME": str(tmp_path), "OPENAI_API_KEY": KEY}


def _kept(environment: dict[str, str], *, later_ns: int = 2 * SETTLED_NS) -> SearchPlace | None:
    """What is kept by a search that begins so long after now, and found by the next one."""
    config = load_config(environment)
    remember_search(config, search_settings(config), began_ns=time.time_ns() + later_ns)
    return remembered_search(environment)


def test_what_is_kept_is_what_the_settings_say(environment: dict[str, str], tmp_path: Path) -> None:
    """Places, time zone and each value of the search, defaults too; and no key of anybody."""
    place = _kept(environment)

    config = load_config(environment)
    settings = search_settings(config)
    assert place is not None
    assert place.folders == config.folders
    assert (place.state_dir, place.time_zone, place.by_meaning) == (config.state_dir, "Europe/Berlin", False)
    assert (place.settings.provider, place.settings.query.max_results) == ("none", 2)
    assert place.settings.query.hybrid.mmr.lambda_ == settings.query.hybrid.mmr.lambda_
    assert (place.settings.sources, place.settings.extra_paths) == (settings.sources, settings.extra_paths)
    assert vars(place.settings.chunking) == vars(settings.chunking)
    file = tmp_path / ".nacre" / KEPT_FILE
    assert KEY not in file.read_text(encoding="utf-8")
    assert file.stat().st_mode & 0o077 == 0


def _rewritten(home: Path) -> None:
    _write(home, PLAIN.replace("maxResults: 2", "maxResults: 3"))


def _rewritten_in_silence(home: Path) -> None:
    file = home / ".nacre/nacre.json5"
    facts = file.stat()
    _rewritten(home)
    os.utime(file, ns=(facts.st_atime_ns, facts.st_mtime_ns))


CHANGES: dict[str, Callable[[Path], object]] = {
    "settings": _rewritten,
    "settings of the same size and time": _rewritten_in_silence,
    "no settings any more": lambda home: (home / ".nacre/nacre.json5").unlink(),
    "closed settings": lambda home: (home / ".nacre/nacre.json5").chmod(0),
    "variables": lambda home: (home / ".nacre/.env").write_text("A=b\n"),
    "settings beside": lambda home: (home / ".nacre/openclaw.json").write_text("{}"),
    "torn": lambda home: (home / ".nacre" / KEPT_FILE).write_text('{"made_by": "0.1'),
    "another shape": lambda home: (home / ".nacre" / KEPT_FILE).write_text("[]"),
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_change_of_any_file_ends_it(environment: dict[str, str], tmp_path: Path, change: str) -> None:
    """Then the settings are read anew, with all that they have to say."""
    assert _kept(environment) is not None

    CHANGES[change](tmp_path)

    assert remembered_search(environment) is None


@pytest.mark.parametrize(
    "variable",
    [
        "NACRE_WORKSPACE=/elsewhere",
        "NACRE_AGENT=other",
        "NACRE_DATABASE_URL=postgresql://db",
        "OPENAI_API_KEY=",
    ],
)
def test_a_change_of_the_environment_ends_it(environment: dict[str, str], variable: str) -> None:
    """Also where the settings name a variable that is not set any more, which is an error."""
    assert _kept(environment) is not None

    name, _, value = variable.partition("=")
    assert remembered_search({**environment, name: value}) is None


def test_settings_that_were_just_written_are_not_kept(environment: dict[str, str]) -> None:
    """They may change once more without another time stamp."""
    assert _kept(environment, later_ns=0) is None
    assert _kept(environment) is not None


@pytest.mark.parametrize(
    "written",
    [
        '{agents: {list: [{id: "one"}, {id: "two"}]}}',
        '{agents: {defaults: {memorySearch: {provider: "openai"}}}}',
        '{agents: {defaults: {memorySearch: {remote: {apiKey: "sk-1"}}}}}',
        '{agents: {defaults: {memorySearch: {extraPaths: ["${OPENAI_API_KEY}"]}}}}',
        '{agents: {defaults: {workspace: "notes"}}}',
        '{memory: {backend: "qmd"}}',
        "{wizard: 1}",
    ],
)
def test_what_needs_more_than_that_is_not_kept(
    environment: dict[str, str], tmp_path: Path, written: str
) -> None:
    """Several agents, keys, folders by the present one, another backend, settings with something to say."""
    _write(tmp_path, written)

    assert _kept(environment) is None


def test_a_kept_search_is_small(environment: dict[str, str], tmp_path: Path) -> None:
    """It is read at every search."""
    assert _kept(environment) is not None

    assert len(json.dumps(json.loads((tmp_path / ".nacre" / KEPT_FILE).read_bytes()))) < 8_000
