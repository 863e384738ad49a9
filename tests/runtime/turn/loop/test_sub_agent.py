"""What can be a sub-agent, checked when it is made."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from nacre import SubAgent, sub_agent, tool
from nacre.runtime.turn.loop.sub_agent import MOST_DEPTH


@tool
def depth(harbour: str) -> str:
    """How deep a harbour is."""
    return f"{harbour}: 4 m"


def scout(**changes: Any) -> SubAgent:
    """A sub-agent that looks up depths."""
    given: dict[str, Any] = {
        "name": "scout",
        "description": "Finds out facts about harbours.",
        "instructions": "Give the depth in metres.",
        "tools": [depth],
    }
    return sub_agent(**{**given, **changes})


WRONG: Sequence[tuple[dict[str, Any], str]] = (
    ({"name": "two words"}, "is not a valid tool name"),
    ({"description": " "}, "no description"),
    ({"instructions": ""}, "no instructions"),
    ({"tools": [depth, depth]}, "two tools named 'depth'"),
    ({"tools": [lambda harbour: harbour]}, "is not a valid tool name"),
    ({"model": "small"}, "provider/model"),
    ({"chats": ("everywhere",)}, "chats="),
)


@pytest.mark.parametrize(("changes", "told"), WRONG, ids=[told for _, told in WRONG])
def test_what_cannot_be_one_is_refused(changes: dict[str, Any], told: str) -> None:
    """The error is a sentence about what to change."""
    with pytest.raises(TypeError, match=told):
        scout(**changes)


def test_three_may_stand_one_inside_the_other() -> None:
    """Nesting has an end, which is known before anything is said."""
    deepest = scout(tools=[scout(name="middle", tools=[scout(name="inner")])])

    assert deepest.depth == MOST_DEPTH == 3
    with pytest.raises(TypeError, match="4 deep"):
        scout(name="top", tools=[deepest])


def test_it_is_the_owners_alone_unless_it_says_so() -> None:
    """As with every tool, a group is offered nothing by accident."""
    assert scout().chats == frozenset({"private"})
    assert not scout().notes
