"""Letters and digits that are written in more than one way."""

from __future__ import annotations

import unicodedata

import pytest

from nacre.memory.text.forms.spelling import DIGITS, normalize, spelled_out, without_spelling


@pytest.mark.parametrize(
    ("text", "folded"),
    [
        ("ＡＢＣ９８", "ABC98"),
        ("٤١٢ و ۷۳", "412 و 73"),
        ("कमरा ७३५", "कमरा 735"),
        ("ﬁne Straße", "fine Strasse"),
        ("ısı", "isi"),
    ],
)
def test_a_letter_or_digit_has_one_form(text: str, folded: str) -> None:
    """Full width, other scripts' digits and ligatures are the plain ones."""
    assert normalize(text) == folded


def test_every_digit_is_the_one_that_unicode_says() -> None:
    """The table of zeros is right for each script in it."""
    assert [normalize(digit) for digit in DIGITS] == [str(unicodedata.digit(digit)) for digit in DIGITS]


@pytest.mark.parametrize(
    ("word", "spelled"), [("fahrräder", "fahrraeder"), ("københavn", "koebenhavn"), ("århus", "aarhus")]
)
def test_an_umlaut_may_be_spelled_out_and_back(word: str, spelled: str) -> None:
    """Either way of writing leads to the other."""
    assert list(spelled_out(word)) == [spelled]
    assert list(without_spelling(spelled)) == [
        unicodedata.normalize("NFD", word.replace("ø", "o"))[:0]
        + "".join(c for c in unicodedata.normalize("NFD", normalize(word)) if not unicodedata.combining(c))
    ]


@pytest.mark.parametrize("word", ["steuer", "neue", "quelle", "haus", "tisch"])
def test_two_vowels_are_not_always_an_umlaut(word: str) -> None:
    """What was never an umlaut is left alone."""
    assert not list(without_spelling(word))
    assert not list(spelled_out(word))
