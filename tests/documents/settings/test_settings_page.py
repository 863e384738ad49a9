"""docs/settings.md says what the code says: each key with its type, its default and its words."""

from __future__ import annotations

import json

import pytest

from nacre.cli.setup.config.commands import kind_of, settings_schema, without_links
from nacre.runtime.settings.keys import field_of, key_of
from nacre.runtime.settings.settings import Settings
from tests.documents.settings import settings_page


@pytest.mark.covers("QMD-1")
def test_the_page_has_the_words_of_the_code() -> None:
    """Every key or its section once, with its type, its default and its meaning."""
    text = settings_page.PAGE.read_text(encoding="utf-8")

    made = settings_page.with_tables(text, settings_page.current_rows())

    assert made == text, "make the tables anew with `make fix`"


def test_a_row_stands_where_most_of_its_key_is_named() -> None:
    """What stands around the tables stays, and a key without a table is refused."""
    page = (
        "Before.\n<!-- settings: a -->\nold\n<!-- settings: end -->\nBetween.\n<!-- settings: a.b c[] -->\n"
        "<!-- settings: end -->\nAfter.\n"
    )

    made = settings_page.with_tables(
        page, {"a.x": "| 1 |", "c[].d": "| 2 |", "a.b.y": "| 3 |", "a.bc": "| 4 |"}
    )

    head = "| Key | Type | Default | Meaning |\n|---|---|---|---|\n"
    assert made == (
        f"Before.\n<!-- settings: a -->\n\n{head}| 1 |\n| 4 |\n\n<!-- settings: end -->\nBetween.\n"
        f"<!-- settings: a.b c[] -->\n\n{head}| 3 |\n| 2 |\n\n<!-- settings: end -->\nAfter.\n"
    )
    with pytest.raises(ValueError, match="no table for other"):
        settings_page.with_tables(page, {"other": "| 5 |"})


@pytest.mark.parametrize(
    ("key", "kind"),
    [
        ("agents.defaults.contextTokens", "whole number of tokens, from 4000"),
        ("agents.defaults.maxSteps", "whole number, from 1 to 1000"),
        ("agents.defaults.heartbeat.every", "duration"),
        ("session.maintenance.pruneAfter", "duration, or `false`"),
        ("session.mainKey", "text"),
        ("models.providers.some.apiKey", "text, never shown"),
        ("tools.rules.some.chats", 'list of `"private"`, `"direct"` or `"group"`'),
        ("session.identityLinks", "table of lists of texts"),
        ("plugins.entries.some.config", "table"),
    ],
)
def test_a_type_is_told_in_words(key: str, kind: str) -> None:
    """With its unit, its limits and its choices."""
    found = field_of(key_of(key, {}), Settings)

    assert found is not None
    assert kind_of(found) == kind


def test_an_editor_shows_the_same_words() -> None:
    """The JSON Schema has the words of the page, with pages named in place of links."""
    assert without_links("see [the\n  bank](bank.md#pages)") == "see the bank (docs/bank.md)"
    text = json.dumps(settings_schema())
    assert "the weighted sum of OpenClaw" in text
    assert "serving (docs/serve.md)" in text
    assert "](" not in text
