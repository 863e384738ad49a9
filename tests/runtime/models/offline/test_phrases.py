"""What keeps the look at a long conversation short leaves nothing out."""

from __future__ import annotations

import pytest
from hypothesis import given, settings, strategies as st

from nacre.runtime.models.offline.intent import is_decision, may_decide
from nacre.runtime.models.offline.phrases import STATEMENTS, occurs


@given(text=st.from_regex(STATEMENTS["decision"]))
def test_an_answer_with_a_decision_is_always_looked_at(text: str) -> None:
    """Whatever the table takes for a decision has one of the words by which answers are chosen."""
    assert may_decide(text)


@pytest.mark.parametrize(
    "text",
    [
        "WE DECIDED on tea.",
        "We’ll use Postgres.",
        "我們決定用它",
        "お茶に決めました",
        "차로 했다",
        "Мы решили: чай",
    ],
)
def test_decisions_in_any_writing_are_looked_at(text: str) -> None:
    """Capitals, printed apostrophes and traditional Chinese are brought to one form first."""
    assert is_decision(text)
    assert may_decide(text)
    assert may_decide(f"İstanbul.\n{text}")


@pytest.mark.parametrize("kind", sorted(STATEMENTS))
@settings(max_examples=20)
@given(data=st.data())
def test_a_text_in_ascii_is_read_by_fewer_patterns_alike(kind: str, data: st.DataObject) -> None:
    """Patterns that need a sign of another script are left out there, and no others."""
    text = data.draw(st.from_regex(STATEMENTS[kind])).encode("ascii", "ignore").decode()

    assert occurs(kind, text) == (STATEMENTS[kind].search(text) is not None)
