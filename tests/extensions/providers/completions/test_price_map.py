"""The price map that Nacre ships: what it says, and that it is litellm's."""

from __future__ import annotations

import json
import runpy
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path

from nacre.extensions.providers.completions.price_map import is_provider, price_map_entry, price_map_models
from tests.house.tree import ROOT

PRICES = ROOT / "extensions/providers/completions/prices/prices.json"


def test_a_bare_name_counts_only_for_its_own_provider() -> None:
    """Another provider's model of that name may have another window."""
    assert price_map_entry("openai/gpt-4o")["max_input_tokens"] == 128_000
    assert price_map_entry("gpt-4o")["max_input_tokens"] == 128_000
    assert price_map_entry("mistral/gpt-4o") == {}
    assert price_map_entry("nobody/nothing") == {}
    assert price_map_entry("") == {}


def test_one_line_has_what_the_whole_map_has() -> None:
    """Entries are cut out of the text; the models of a provider come from all of it."""
    models = price_map_models("gemini")

    assert len(models) > 10
    assert {name: price_map_entry(name) for name in models} == dict(models)


def test_providers_without_a_priced_model_are_known_too() -> None:
    """Such as those that any account fills with models of its own."""
    assert is_provider("anthropic")
    assert is_provider("predibase")
    assert not is_provider("nobody")
    assert not is_provider("")


def test_the_map_is_that_of_the_tested_litellm() -> None:
    """`.ci/snapshots.py` draws it anew."""
    spec = find_spec("litellm")
    assert spec is not None
    assert spec.origin is not None
    drawn = runpy.run_path(str(ROOT / ".ci" / "snapshots.py"))
    made = drawn["price_map"](Path(spec.origin).parent, version("litellm"))

    assert json.loads(PRICES.read_bytes()) == json.loads(made)
