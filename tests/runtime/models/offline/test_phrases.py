"""What keeps the look at a long conversation short leaves nothing out."""

from __future__ import annotations

import pytest
from hypothesis import given, settings, strategies as st

from nacre.runtime.models.offline.phrases import STATEMENTS, occurs, sign_test
from nacre.runtime.models.offline.reading import kind_of


@pytest.mark.parametrize("kind", ["decision", "open", "preference", "rule"])
@given(data=st.data())
def test_a_text_with_a_statement_is_always_looked_at(kind: str, data: st.DataObject) -> None:
    """Whatever the table takes for a statement of a kind has one of the signs by which texts are chosen."""
    assert sign_test([kind])(data.draw(st.from_regex(STATEMENTS[kind])))


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
    may_decide = sign_test(["decision"])
    assert kind_of(text) == "decision"
    assert may_decide(text)
    assert may_decide(f"İstanbul.\n{text}")


def test_other_texts_are_not_looked_at() -> None:
    """What most texts have none of costs nothing; kinds without signs are looked for everywhere."""
    assert not sign_test(["decision", "open", "preference", "rule"])("The bus leaves at nine.")
    assert sign_test(["decision", "fact"])("The bus leaves at nine.")


@pytest.mark.parametrize("kind", sorted(STATEMENTS))
@settings(max_examples=20)
@given(data=st.data())
def test_a_text_in_ascii_is_read_by_fewer_patterns_alike(kind: str, data: st.DataObject) -> None:
    """Patterns that need a sign of another script are left out there, and no others."""
    text = data.draw(st.from_regex(STATEMENTS[kind])).encode("ascii", "ignore").decode()

    assert occurs(kind, text) == (STATEMENTS[kind].search(text) is not None)
