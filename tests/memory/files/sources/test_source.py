"""What a source says of whose word something is, and who may be told it."""

from __future__ import annotations

from itertools import permutations

import pytest

from nacre.memory.files.sources.source import EVERYBODY, PRIVATE, Source, Speaker, may_see, narrowest

FAMILY, WORK = "chats/telegram-group-7", "chats/slack-group-9"


@pytest.mark.parametrize(
    ("audiences", "expected"),
    [
        ((), PRIVATE),
        ((EVERYBODY,), EVERYBODY),
        ((EVERYBODY, FAMILY), FAMILY),
        ((FAMILY, FAMILY), FAMILY),
        ((FAMILY, WORK), PRIVATE),
        ((EVERYBODY, FAMILY, WORK), PRIVATE),
        ((PRIVATE, FAMILY, EVERYBODY), PRIVATE),
    ],
)
def test_the_narrowest_audience_is_who_may_hear_each(audiences: tuple[str, ...], expected: str) -> None:
    """Whatever the order, a chat may hear a mix exactly when it may hear all that it was made of."""
    for order in permutations(audiences):
        assert narrowest(order) == expected
    for listeners in (FAMILY, WORK, "chats/irc-group-x"):
        may = all(may_see(listeners, audience) for audience in audiences) and bool(audiences)
        assert may_see(listeners, expected) == may


def test_the_owner_hears_everything() -> None:
    """Nothing is kept from the owner's private chat."""
    assert all(may_see(PRIVATE, audience) for audience in (PRIVATE, EVERYBODY, FAMILY))


@pytest.mark.parametrize(
    ("said_by", "expected"),
    [
        (("owner",), True),
        (("owner", "assistant"), True),
        (("owner", "tool"), False),
        (("others",), False),
        (("unknown",), False),
        ((), False),
    ],
)
def test_whose_word_it_is(said_by: tuple[Speaker, ...], expected: bool) -> None:
    """One other voice is enough for a line not to be the owner's word; what nobody knows is not, either."""
    source = Source(written_by="flush", audience=PRIVATE, said_by=said_by)
    assert source.is_owners_word is expected
