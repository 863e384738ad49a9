"""How a model's Markdown looks in Telegram: nothing is lost, and nothing becomes longer."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from nacre.extensions.telegram.bridge import Span, formatted, utf16_length

pytestmark = pytest.mark.channels


def _marked(markdown: str) -> tuple[str, list[tuple[str, str]]]:
    text, spans = formatted(markdown)
    units = text.encode("utf-16-le")
    cut = [units[2 * span.offset : 2 * (span.offset + span.length)].decode("utf-16-le") for span in spans]
    return text, [(span.kind, piece) for span, piece in zip(spans, cut, strict=True)]


@pytest.mark.parametrize(
    ("markdown", "text", "spans"),
    [
        ("🐝 **b** 🐝 *c*", "🐝 b 🐝 c", [("bold", "b"), ("italic", "c")]),
        ("# Bees\n\nThey `hum`.", "Bees\n\nThey hum.", [("bold", "Bees"), ("code", "hum")]),
        ("> a\n> *b*\n\nc", "a\nb\n\nc", [("italic", "b"), ("blockquote", "a\nb")]),
        ("- a\n  - b\n\n1. c", "- a\n  - b\n\n1. c", []),
        ("| a | b |\n|---|---|\n| 1 | 2 |", "| a | b |\n|---|---|\n| 1 | 2 |", []),
        ("snake_case_name 2*3*4", "snake_case_name 234", [("italic", "3")]),
        ("a\n```\nx\n\n\ny", "a\nx\n\n\ny", [("pre", "x\n\n\ny")]),
        ("<script>&amp;</script>", "<script>&amp;</script>", []),
        ("[pay](tg://user?id=3)", "[pay](tg://user?id=3)", []),
        ("```\n```", "```\n```", []),
        ("~~old~~ ![hive](http://a.b/c.png)", "old hive (http://a.b/c.png)", [("strikethrough", "old")]),
    ],
)
def test_what_is_shown(markdown: str, text: str, spans: list[tuple[str, str]]) -> None:
    """Lists, tables and HTML stay as they are written."""
    assert _marked(markdown) == (text, spans)


def test_links_and_languages() -> None:
    """A link keeps its address, a block its language."""
    _, spans = formatted("[hive](https://hive.example)\n```python\nx = 1\n```")
    assert spans == (
        Span("text_link", 0, 4, url="https://hive.example"),
        Span("pre", 5, 5, language="python"),
    )


@given(st.text(alphabet="ab🐝é *_`~#>-[]()!\\\n\t<&;|1.:/", max_size=120))
def test_no_text_becomes_longer_or_empty(markdown: str) -> None:
    """So that what was cut to fit still fits."""
    text, spans = formatted(markdown)
    assert utf16_length(text) <= utf16_length(markdown)
    assert bool(text.strip()) == bool(markdown.strip())
    assert all(0 <= span.offset < span.offset + span.length <= utf16_length(text) for span in spans)
    if not set(markdown) & set("[`~"):  # addresses and languages are not shown as words
        assert [one for one in text if one in "ab🐝é"] == [one for one in markdown if one in "ab🐝é"]
