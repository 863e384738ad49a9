"""Words that a question's writing marks."""

from __future__ import annotations

import pytest

from nacre.memory.text.forms.marked import code_forms, proper_names


@pytest.mark.parametrize(
    ("question", "names"),
    [
        ("What did Caroline's sister give to Melanie?", ("caroline", "melanie")),
        ("Coffee or tea? Ask Bart. Never The Others", ("bart", "others")),
        ("Is it SQLite, in iOS, on IBM?", ()),
        ("what did caroline say", ()),
    ],
)
def test_names_have_a_capital_inside_of_a_sentence(question: str, names: tuple[str, ...]) -> None:
    """What begins a sentence, an abbreviation or a small word is no name."""
    assert proper_names(question) == names


@pytest.mark.parametrize(
    ("question", "forms"),
    [
        ("New --Raw-lines option - and db.insert(rows, strict=True)", ("--raw-lines", "insert(", "strict=")),
        ("the function(s) of a table (old) where a == b -- or a=b", ()),
        ("what does enable_fts(...) do?", ("enable_fts(",)),
    ],
)
def test_code_is_told_by_its_signs(question: str, forms: tuple[str, ...]) -> None:
    """Options, calls and named arguments; prose with the same signs is none."""
    assert code_forms(question) == forms
