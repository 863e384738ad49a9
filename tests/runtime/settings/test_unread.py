"""Settings that stand where nothing reads them are told, and change nothing."""

from __future__ import annotations

from pathlib import Path

import pytest

from nacre.runtime.contracts.errors import ConfigError
from nacre.runtime.settings.config import load_config
from tests.runtime.agents import write_settings


@pytest.mark.covers("CFG-14")
def test_memory_search_at_the_top_is_told_and_not_read(tmp_path: Path) -> None:
    """CFG-14: an old file's `memorySearch` is named in a notice; `agents.defaults` alone decides."""
    write_settings(
        tmp_path,
        {
            "memorySearch": {"enabled": False},
            "agents": {"defaults": {"memorySearch": {"query": {"maxResults": 3}}}},
        },
    )

    config = load_config({"HOME": str(tmp_path)}, state_dir=tmp_path)

    assert [notice for notice in config.notices if "memorySearch" in notice and "does not read" in notice]
    assert config.settings.agent.memory_search.enabled
    assert config.settings.agent.memory_search.query.max_results == 3


@pytest.mark.parametrize("name", ["nacre.json", "nacre.yaml", "openclaw.json"])
@pytest.mark.covers("SEED-22", "PART-30")
def test_settings_in_a_file_of_another_name_are_told(tmp_path: Path, name: str) -> None:
    """Whoever brings a file along learns why it changes nothing, and where its settings belong."""
    (tmp_path / name).write_text("{}", encoding="utf-8")

    (notice,) = load_config({"HOME": str(tmp_path)}, state_dir=tmp_path).notices

    assert notice == (
        f"Settings are read from {tmp_path / 'nacre.json5'} alone, and not from {name} beside it. "
        "Move them there."
    )


@pytest.mark.parametrize(
    "text",
    [
        "agents: { defaults: { memorySearch: { query: { maxResults: 3 } } } }",
        '// from a page\n"agents": {"defaults": {"memorySearch": {"query": {"maxResults": 3}}}}, // end',
        "agents: { defaults: { memorySearch: { query: { maxResults: 3 } } } },\nsession: {},\n",
    ],
)
@pytest.mark.covers("SEED-22")
def test_settings_without_the_outer_braces_are_read(tmp_path: Path, text: str) -> None:
    """Published settings are often shown as a fragment; it may stand in the file as it is."""
    (tmp_path / "nacre.json5").write_text(text, encoding="utf-8")

    assert load_config({}, state_dir=tmp_path).settings.agent.memory_search.query.max_results == 3


def test_half_a_file_is_no_fragment(tmp_path: Path) -> None:
    """What only lacks its end is told as broken, with its own place."""
    (tmp_path / "nacre.json5").write_text("agents: { defaults: {", encoding="utf-8")

    with pytest.raises(ConfigError, match="is not JSON5"):
        load_config({}, state_dir=tmp_path)


@pytest.mark.parametrize(
    ("defaults", "own", "told"),
    [
        ({"sources": ["memory", "sessions"]}, {}, True),
        ({"sources": ["memory", "sessions"], "experimental": {"sessionMemory": True}}, {}, False),
        ({"sources": ["memory"]}, {"sources": ["sessions"]}, True),
        ({"experimental": {"sessionMemory": True}}, {"sources": ["sessions"]}, False),
        ({}, {}, False),
    ],
)
@pytest.mark.covers("SEED-22", "PART-20")
def test_conversations_without_their_switch_are_told(
    tmp_path: Path, defaults: dict[str, object], own: dict[str, object], told: bool
) -> None:
    """Whoever lists them as a source learns why they are not found."""
    agents = {"defaults": {"memorySearch": defaults}, "list": [{"id": "main", "memorySearch": own}]}
    write_settings(tmp_path, {"agents": agents})

    notices = load_config({"HOME": str(tmp_path)}, state_dir=tmp_path).notices

    assert any("experimental.sessionMemory" in notice for notice in notices) is told
