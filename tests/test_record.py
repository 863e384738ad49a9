"""Records: values with names, made once."""

from __future__ import annotations

import copy
import dataclasses
import inspect
import pickle
import subprocess
import sys
from dataclasses import field, replace
from typing import ClassVar

import pytest

from nacre.record import Record


class Place(Record):
    """Where something stands."""

    path: str
    line: int = 1
    tags: list[str] = field(default_factory=list[str])
    key: str = field(default="", repr=False)
    asked: int = field(default=0, compare=False)
    kinds: ClassVar[tuple[str, ...]] = ("note",)


class Found(Place):
    """A place with a score."""

    score: float

    @property
    def told(self) -> str:
        """The place in words."""
        return f"{self.path}:{self.line}"


def test_values_are_named_or_have_a_default() -> None:
    """A factory makes a new value for each record."""
    place = Place(path="a.md")

    assert (place.path, place.line, place.tags, place.key) == ("a.md", 1, [], "")
    assert Place(path="a.md", line=7).line == 7
    assert place.tags is not Place(path="a.md").tags


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({}, "Place needs a value for path."),
        ({"path": "a.md", "lines": 2, "pth": ""}, "Place has no field lines, pth."),
        ({"line": 2, "pth": ""}, "Place needs a value for path."),
    ],
)
def test_a_missing_or_unknown_value_is_refused(given: dict[str, object], sentence: str) -> None:
    """With its name."""
    with pytest.raises(TypeError, match=f"^{sentence}$"):
        Place(**given)  # type: ignore[arg-type]  # what a type checker would not let through


def test_a_record_is_never_changed() -> None:
    """Nor does it take further attributes."""
    place = Place(path="a.md")

    with pytest.raises(dataclasses.FrozenInstanceError):
        place.path = "b.md"  # type: ignore[misc]
    with pytest.raises(dataclasses.FrozenInstanceError):
        del place.path
    assert place.path == "a.md"


def test_equal_values_are_equal() -> None:
    """Whatever the order of arguments, within one class; what is not compared does not count."""
    tags: list[str] = []
    one = Found(path="a.md", line=2, score=0.5, tags=tags)

    assert one == Found(score=0.5, line=2, path="a.md", tags=tags, asked=3)
    assert one != Found(score=0.6, line=2, path="a.md")
    assert Place(path="a.md") != Found(path="a.md", score=0.5)
    assert Scoreless(path="a.md") == Scoreless(path="a.md")
    assert len({Scoreless(path="a.md", at=1), Scoreless(at=1, path="a.md"), Scoreless(path="b.md")}) == 2


class Scoreless(Record):
    """A record whose values can all be hashed."""

    path: str
    at: int = 0


def test_it_is_a_dataclass_for_whoever_asks() -> None:
    """`replace`, `fields`, `asdict`, and copies."""
    found = Found(path="a.md", score=0.5)

    assert dataclasses.is_dataclass(Found)
    assert [each.name for each in dataclasses.fields(Found)] == [
        *("path", "line", "tags", "key", "asked", "score")
    ]
    assert replace(found, line=9).told == "a.md:9"
    assert dataclasses.asdict(Scoreless(path="a.md")) == {"path": "a.md", "at": 0}
    assert copy.deepcopy(found) == found == pickle.loads(pickle.dumps(found))


def test_what_is_secret_is_not_shown() -> None:
    """`repr` names the fields, without those that are not to be shown."""
    shown = repr(Place(path="a.md", key="hush"))

    assert shown == "Place(path='a.md', line=1, tags=[], asked=0)"


def test_it_says_what_it_takes() -> None:
    """For `help` and for editors: names, types and defaults; `...` where a value is made."""
    shown = (
        "(*, path: 'str', line: 'int' = 1, tags: 'list[str]' = Ellipsis, key: 'str' = '', asked: 'int' = 0)"
    )

    assert str(inspect.signature(Place)) == shown


YOUNG = """import gc
from weakref import ref
from nacre.record import paused_collector
class Node: pass
node = Node()
node.own = node
gone = ref(node)
with paused_collector():
    assert not gc.isenabled()
del node
gc.collect(1)
assert gone() is None"""


def test_a_pause_with_few_values_leaves_the_collector_its_generations():
    """A cycle made before it is still young afterwards, so that it is collected soon. In a process of its
    own, since here the collector is frozen."""
    subprocess.run([sys.executable, "-c", YOUNG], check=True)
