"""Names of models without a provider."""

from __future__ import annotations

from pathlib import Path

import pytest

from nacre.extensions.providers.extension import model_facts, open_model
from nacre.runtime.models.scripted import Clock
from nacre.runtime.settings.config import load_config


@pytest.mark.parametrize(
    ("name", "full"),
    [
        ("gpt-5-mini", "openai/gpt-5-mini"),
        ("claude-sonnet-4-5", "anthropic/claude-sonnet-4-5"),
        ("gemini-2.5-flash", "gemini/gemini-2.5-flash"),
        ("openai/gpt-5-mini", "openai/gpt-5-mini"),
    ],
)
def test_a_well_known_model_needs_no_provider(name: str, full: str, tmp_path: Path) -> None:
    """A name without a provider means the model of the provider that made it."""
    config = load_config({}, state_dir=tmp_path)

    assert open_model(config, name, Clock()).name == full
    assert model_facts(config, name, Clock()).name == full
