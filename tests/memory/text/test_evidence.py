"""Where a query's words stand in a text."""

from __future__ import annotations

import pytest

from nacre.memory.text.evidence import Finder, TextEvidence, best_line_share, counted, rarity
from nacre.memory.text.lexical import match_query


def look(query: str, text: str) -> TextEvidence:
    found = match_query(query)
    assert found is not None
    return Finder(found).look(text)


@pytest.mark.parametrize(
    ("query", "text"),
    [
        ("adopted", "The adoption went well."),
        ("stories", "one story"),
        ("CAFÉ", "the cafe"),
        ("cafe", "das Café"),
        ("cats", "a cat"),
        ("meeting", "the meeting"),
        ("讨论方案", "今天讨论"),
    ],
)
def test_a_word_is_found_in_another_form(query: str, text: str) -> None:
    """Endings, case and accents do not hide a word."""
    assert look(query, text).terms


@pytest.mark.parametrize(("query", "text"), [("car", "a carpet"), ("art", "the start"), ("cat", "education")])
def test_a_short_word_is_not_the_beginning_of_any_other(query: str, text: str) -> None:
    """A part of another word is not the word."""
    assert not look(query, text).terms


def test_terms_are_told_line_by_line() -> None:
    """Two words on one line are better evidence than on two."""
    together = look("green apples", "red pears\ngreen apples\n")
    apart = look("green apples", "green pears\nred apples\n")
    assert best_line_share(together, len) / 2 == 1.0
    assert best_line_share(apart, len) / 2 == 0.5


@pytest.mark.parametrize(
    ("query", "text", "exact"),
    [
        ("what was a828e60?", "commit a828e60fbc", True),
        ("what was a828e60fbc12?", "commit a828e60", True),
        ("#12", "closes #12.", True),
        ("#12", "closes #123", False),
        ("FOO_bar", "foo_bar = 1", True),
        ("FOO_bar", "foo_barn", False),
        ('"disk is full"', "the disk is full", True),
        ("disk is full", "the disk is full", False),
        ("self-care", "about self-care", False),
    ],
)
def test_exact_means_word_for_word(query: str, text: str, exact: bool) -> None:
    """Identifiers and quoted phrases count as exact, everyday words do not."""
    assert look(query, text).exact is exact


def test_what_few_texts_have_weighs_more() -> None:
    """A word in one text of three outweighs a word in all of them."""
    found = match_query("green kayak")
    assert found is not None
    finder = Finder(found)
    texts = ("green kayak", "green tea", "green door")
    counts = counted([finder.look(text) for text in texts], len(finder.terms))
    weights = rarity(counts, len(texts))
    assert sum(weights) == pytest.approx(1)
    assert weights[finder.terms.index("kayak")] > 1.5 * weights[finder.terms.index("green")]


@pytest.mark.parametrize("query", ["\u0301", "`\u0301 \u0301`", "a\u0301 x"])
def test_a_lone_accent_is_no_word(query: str) -> None:
    """What folds to nothing is passed over, not looked for without end."""
    assert not look(query, "nothing of the kind").exact


def test_code_counts_only_as_it_is_written() -> None:
    """An option is not its words, and not the beginning of a longer one; a call is not a part of a name."""
    asked = "the --raw option of insert(rows)"
    assert look(asked, "* --RAW, and table.insert(row)").code == {0, 1}
    assert not look(asked, "--raw-lines reads raw lines; an insert, upsert_insert()").code
