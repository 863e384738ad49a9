"""Settings of memory search: defaults, merging, limits."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from nacre.memory.contracts.settings import index_path, resolve_settings
from nacre.memory.search.scoring import USUAL_MIN_SCORE


@pytest.mark.covers("CFG-2", "CFG-8", "CFG-13")
def test_defaults_are_the_seeds() -> None:
    """Without any setting, every value is the one that the first description names."""
    settings = resolve_settings({})

    assert (settings.chunking.tokens, settings.chunking.overlap) == (400, 80)
    assert (settings.query.max_results, settings.query.min_score, USUAL_MIN_SCORE) == (6, None, 0.35)
    assert (settings.query.hybrid.vector_weight, settings.query.hybrid.text_weight) == (0.7, 0.3)
    assert settings.query.hybrid.candidate_multiplier == 4
    assert (settings.query.hybrid.mmr.enabled, settings.query.hybrid.mmr.lambda_) == (False, 0.7)
    assert settings.query.hybrid.temporal_decay.enabled is False
    assert settings.query.hybrid.temporal_decay.half_life_days == 30
    assert (settings.sync.watch_debounce_ms, settings.sync.interval_minutes) == (1500, 0)
    assert (settings.sync.sessions.delta_bytes, settings.sync.sessions.delta_messages) == (100_000, 50)
    assert (settings.provider, settings.fallback, settings.sources) == (None, "none", ("memory",))


@pytest.mark.covers("CFG-3")
def test_fields_are_merged_one_by_one() -> None:
    """An agent's setting replaces one field and leaves its neighbours; a null replaces nothing."""
    defaults = {
        "model": "m",
        "query": {"minScore": 0.5, "maxResults": 4},
        "chunking": {"tokens": 500, "overlap": 100},
        "store": {"vector": {"enabled": False, "extensionPath": "/opt/vec"}},
    }
    override = {
        "query": {"maxResults": 8, "minScore": None},
        "chunking": {"tokens": 320},
        "store": {"vector": {"enabled": True}},
    }

    settings = resolve_settings(defaults, override)

    assert settings.model == "m"
    assert (settings.query.max_results, settings.query.min_score) == (8, 0.5)
    assert (settings.chunking.tokens, settings.chunking.overlap) == (320, 100)
    assert (settings.store.vector.enabled, settings.store.vector.extension_path) == (True, "/opt/vec")


@pytest.mark.covers("CFG-1")
def test_an_agent_can_switch_memory_search_off() -> None:
    """`enabled: false` of an agent wins over the default."""
    assert resolve_settings({"enabled": True}, {"enabled": False}).enabled is False


@pytest.mark.covers("CFG-4")
def test_extra_paths_of_both_are_joined() -> None:
    """Default paths come first; each path appears once, trimmed."""
    settings = resolve_settings(
        {"extraPaths": ["/shared/notes", " docs "]}, {"extraPaths": ["/shared/notes", "../team-notes", " "]}
    )

    assert settings.extra_paths == ("/shared/notes", "docs", "../team-notes")


@pytest.mark.covers("CFG-9")
def test_headers_are_replaced_as_a_whole() -> None:
    """An agent's `remote.headers` replaces the defaults' headers; base URL and key stay."""
    settings = resolve_settings(
        {"remote": {"baseUrl": "https://one", "apiKey": "k", "headers": {"a": "1"}}},
        {"remote": {"baseUrl": "https://two", "headers": {"b": "2"}}},
    )

    assert settings.remote is not None
    assert (settings.remote.base_url, settings.remote.api_key) == ("https://two", "k")
    assert settings.remote.headers == {"b": "2"}
    assert (settings.remote.batch.enabled, settings.remote.batch.wait) == (False, True)
    assert (settings.remote.batch.concurrency, settings.remote.batch.poll_interval_ms) == (2, 2000)


@pytest.mark.parametrize(("experimental", "expected"), [(False, ("memory",)), (True, ("memory", "sessions"))])
@pytest.mark.covers("CFG-10", "CFG-11")
def test_transcripts_are_a_source_only_when_opted_in(experimental: bool, expected: tuple[str, ...]) -> None:
    """`sources: [memory, sessions]` means transcripts only with `experimental.sessionMemory`."""
    raw = {"sources": ["memory", "sessions"], "experimental": {"sessionMemory": experimental}}

    assert resolve_settings(raw).sources == expected


def test_sources_are_never_empty() -> None:
    """With only a source that is not allowed, memory is searched."""
    assert resolve_settings({"sources": ["sessions"]}).sources == ("memory",)


@pytest.mark.parametrize(
    ("hybrid", "expected"),
    [
        ({"vectorWeight": 0.5, "textWeight": 0.5}, (0.5, 0.5)),
        ({"vectorWeight": 1, "textWeight": 1}, (0.5, 0.5)),
        ({"vectorWeight": 0, "textWeight": 0}, (0.7, 0.3)),
        ({"vectorWeight": 7, "textWeight": 0}, (1.0, 0.0)),
        ({"vectorWeight": 70, "textWeight": 30}, (0.7, 0.3)),
        ({"vectorWeight": -1, "textWeight": 5}, (0.0, 1.0)),
    ],
)
@pytest.mark.covers("SEED-7", "PART-19")
def test_weights_sum_to_one(hybrid: dict[str, float], expected: tuple[float, float]) -> None:
    """Weights are divided by their sum, below zero is zero; two zeros mean the defaults."""
    settings = resolve_settings({"query": {"hybrid": hybrid}}).query.hybrid

    assert (settings.vector_weight, settings.text_weight) == pytest.approx(expected)


def test_out_of_range_values_are_clamped() -> None:
    """The seeds clamp the multiplier, the overlap, the least score and MMR's lambda."""
    settings = resolve_settings(
        {
            "query": {
                "minScore": 3,
                "hybrid": {"candidateMultiplier": 99, "mmr": {"lambda": math.nan}},
            },
            "chunking": {"tokens": 50, "overlap": 80},
        }
    )

    assert settings.query.min_score == 1
    assert settings.query.hybrid.candidate_multiplier == 20
    assert settings.query.hybrid.mmr.lambda_ == 0.7
    assert settings.chunking.overlap == 49


@pytest.mark.parametrize(
    "raw",
    [
        {"provder": "openai"},
        {"query": {"maxResults": 0}},
        {"query": {"hybrid": {"mmr": {"lamda": 0.5}}}},
        {"chunking": {"tokens": "many"}},
        {"store": {"driver": "postgres"}},
        {"sources": ["diary"]},
        {"cache": {"maxEntries": 0}},
    ],
)
def test_unknown_keys_and_wrong_values_are_errors(raw: dict[str, Any]) -> None:
    """A typo or a value of the wrong kind is refused at every level."""
    with pytest.raises(ValidationError):
        resolve_settings(raw)


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        (None, "/state/memory/a1.sqlite"),
        ("/data/{agentId}/{agentId}.db", "/data/a1/a1.db"),
        ("~/memory.sqlite", "/home/o/memory.sqlite"),
    ],
)
@pytest.mark.covers("SEED-1")
def test_the_index_has_a_place_for_each_agent(path: str | None, expected: str) -> None:
    """Agents never share an index by default; `{agentId}` and `~` in `store.path` are filled in."""
    settings = resolve_settings({"store": {"path": path}})

    found = index_path(settings, state_dir=Path("/state"), agent_id="a1", home=Path("/home/o"))

    assert found == Path(expected)
