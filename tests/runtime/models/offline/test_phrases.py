"""What kind of statement a sentence is."""

from __future__ import annotations

import pytest

from nacre.runtime.models.offline.reading import kind_of


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
def test_decisions_are_found_in_any_writing(text: str) -> None:
    """Capitals, printed apostrophes and traditional Chinese are brought to one form first."""
    assert kind_of(text) == "decision"
