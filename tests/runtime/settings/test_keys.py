"""Keys as people write them."""

from __future__ import annotations

import json

import pytest

from nacre.runtime.contracts.errors import ConfigError
from nacre.runtime.settings.keys import default_of, field_of, hidden, key_of, likely_key, written_key
from nacre.runtime.settings.settings import Settings
from tests.documents.settings.settings_keys import settings_keys

RAW = {"agents": {"list": [{"id": "home"}, {"id": "Work"}]}}


@pytest.mark.parametrize(
    ("text", "key"),
    [
        ("agents.defaults.model.primary", ("agents", "defaults", "model", "primary")),
        ("agents.list[work].name", ("agents", "list", 1, "name")),
        ("agents.list[0]", ("agents", "list", 0)),
        (
            'agents.defaults.models."openai/gpt-4.1".alias',
            ("agents", "defaults", "models", "openai/gpt-4.1", "alias"),
        ),
        ("hooks.internal.session-memory", ("hooks", "internal", "session-memory")),
    ],
)
def test_a_key_is_read(text: str, key: tuple[str | int, ...]) -> None:
    """Names, entries of a list by id and by place, names with dots in quotes; and written again."""
    assert key_of(text, RAW) == key
    assert key_of(written_key(key), RAW) == key


@pytest.mark.parametrize("text", ["", ".", "a..b", "a[", "a.b]", 'a."b', "[0", "agents.list[nobody].name"])
def test_what_is_no_key_is_told(text: str) -> None:
    """Never a trace, and never half of a key."""
    with pytest.raises(ConfigError, match=r"is not a key|no entry has the id"):
        key_of(text, RAW)


def test_every_documented_key_is_known() -> None:
    """Each with the default that the documents show."""
    for key, default in settings_keys(Settings):
        written = key.replace("[]", "[0]").replace("<name>", "some")
        found = field_of(key_of(written, {}), Settings)
        assert found is not None, key
        if default and found.info is not None and found.below is None:
            assert json.dumps(default_of(found)) == default, key


def test_a_slip_is_told_what_may_be_meant() -> None:
    """With the whole key, so that it can be copied."""
    with pytest.raises(ConfigError, match=r"Did you mean session\.dmScope\?"):
        field_of(("session", "dmscope"), Settings)
    with pytest.raises(ConfigError, match="single value"):
        field_of(("agents", "defaults", "maxSteps", "more"), Settings)
    assert likely_key(("agents", "defaults", "userTimezon"), Settings) == "agents.defaults.userTimezone"


def test_secrets_are_hidden_wherever_they_stand() -> None:
    """By their names; what is no secret stays."""
    values = {"providers": {"a": {"apiKey": "sk-1", "baseUrl": "http://x"}}, "botToken": "t", "maxTokens": 3}
    assert hidden(values) == {
        "providers": {"a": {"apiKey": "[hidden]", "baseUrl": "http://x"}},
        "botToken": "[hidden]",
        "maxTokens": 3,
    }


def test_secrets_are_not_shown() -> None:
    """Keys by their names and passwords in addresses; the name of the main session is no key."""
    shown = hidden(
        {
            "models": {"providers": {"desk": {"apiKey": "sk-1", "baseUrl": "http://desk:8000/v1"}}},
            "storage": {"url": "postgresql://ann:p4ss:w0rd@db:5432/nacre"},
            "session": {"mainKey": "main"},
        }
    )

    assert shown == {
        "models": {"providers": {"desk": {"apiKey": "[hidden]", "baseUrl": "http://desk:8000/v1"}}},
        "storage": {"url": "postgresql://ann:[hidden]@db:5432/nacre"},
        "session": {"mainKey": "main"},
    }
