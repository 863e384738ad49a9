"""Settings that the acceptance list names and that are not in tests/memory/contracts/test_settings.py."""

from __future__ import annotations

import pytest

from nacre.memory.contracts.settings import RemoteSettings, resolve_settings


@pytest.mark.parametrize("provider", ["openai", "gemini", "voyage", "local", None])
@pytest.mark.covers("CFG-5", "CFG-6", "CFG-7", "SEED-11")
def test_remote_settings_exist_only_when_written(provider: str | None) -> None:
    """CFG-5, 6, 7: no provider grows a remote block; the batch defaults are off, wait, 2, 2000 ms, 60 min."""
    settings = resolve_settings({"provider": provider})
    batch = RemoteSettings().batch

    assert settings.remote is None
    assert (batch.enabled, batch.wait, batch.concurrency) == (False, True, 2)
    assert (batch.poll_interval_ms, batch.timeout_minutes) == (2000, 60)


@pytest.mark.covers("CFG-13")
def test_diversity_and_decay_are_merged_field_by_field() -> None:
    """CFG-13: an agent changes one number and keeps the default's switch."""
    hybrid = resolve_settings(
        {"query": {"hybrid": {"mmr": {"enabled": True}, "temporalDecay": {"enabled": True}}}},
        {"query": {"hybrid": {"mmr": {"lambda": 0.4}, "temporalDecay": {"halfLifeDays": 7}}}},
    ).query.hybrid

    assert (hybrid.mmr.enabled, hybrid.mmr.lambda_) == (True, 0.4)
    assert (hybrid.temporal_decay.enabled, hybrid.temporal_decay.half_life_days) == (True, 7)
