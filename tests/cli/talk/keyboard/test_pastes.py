"""Large pastes are short in the line and whole in the message."""

from __future__ import annotations

from nacre.cli.talk.keyboard.prompt import Pastes

ROWS = "\n".join(f"row {number}" for number in range(30))


def test_a_large_paste_is_a_sign_until_it_is_sent() -> None:
    """Small ones stand there as they are; the same text has the same sign; a sign in a paste stays one."""
    pastes = Pastes()
    assert pastes.shown("one\ntwo") == "one\ntwo"
    assert pastes.shown(ROWS) == "[paste 1: 30 lines]"
    assert pastes.shown("x" * 3_000 + "[paste 1: 30 lines]") == "[paste 2: 3019 characters]"
    assert pastes.shown(ROWS) == "[paste 1: 30 lines]"

    assert pastes.whole("see [paste 1: 30 lines]!") == f"see {ROWS}!"
    assert pastes.whole("[paste 2: 3019 characters]") == "x" * 3_000 + "[paste 1: 30 lines]"
    assert pastes.whole("[paste 3: 30 lines] [paste 1: 7 lines]") == "[paste 3: 30 lines] [paste 1: 7 lines]"
