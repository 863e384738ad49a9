"""What stays of a word whose end is inflected."""

from __future__ import annotations

import pytest

from nacre.memory.text.forms.spelling import beginning, is_inflected


@pytest.mark.parametrize(
    ("asked", "written"),
    [
        ("lastik", "lastiklerini"),
        ("değişti", "değiştirdik"),
        ("krankenversicherung", "krankenversicherungsbeiträge"),
        ("termine", "terminplan"),
        ("кошку", "кошка"),
        ("поезде", "поезда"),
        ("σκυλο", "σκυλος"),
        ("polkupyörä", "polkupyörän"),
        ("kerékpár", "kerékpárt"),
        ("casas", "casa"),
    ],
)
def test_another_form_begins_alike(asked: str, written: str) -> None:
    """In Turkish, German, Russian, Greek, Finnish, Hungarian and Spanish."""
    assert beginning(asked)
    assert written.startswith(beginning(asked))


@pytest.mark.parametrize("word", ["und", "v2", "2026", "ab12cd", "猫的饮水机", "हिन्दी", "foo_bar"])
def test_some_words_are_not_cut(word: str) -> None:
    """Short ones, numbers, names, and scripts in which the end is no ending."""
    assert beginning(word) == ""


@pytest.mark.parametrize(
    ("question", "inflected"),
    [
        ("where is the spare key", False),
        ("nginx timeout", False),
        ("wo ist der schlüssel", True),
        ("araba lastik ne zaman değişti", True),
        ("где ключ", True),
    ],
)
def test_english_is_told_from_others(question: str, inflected: bool) -> None:
    """English is stemmed by the store; a question that shows nothing is taken for English."""
    assert is_inflected(question.split()) is inflected
