"""Values without generated code are what the standard library's dataclasses are."""

from __future__ import annotations

import copy
import dataclasses
import pickle
from functools import cached_property

import pytest

from nacre.values.frozen import dataclass


@dataclass(frozen=True, kw_only=True)
class Shelf:
    """A value with every kind of field."""

    name: str
    books: tuple[str, ...] = ()
    notes: list[str] = dataclasses.field(default_factory=list, compare=False)
    secret: str = dataclasses.field(default="", repr=False)

    def __post_init__(self) -> None:
        if not self.name:
            raise ValueError("A shelf has a name.")

    @cached_property
    def first(self) -> str:
        """The first book."""
        return self.books[0]


@dataclass(frozen=True, kw_only=True)
class Cupboard(Shelf):
    """A value that is more than another."""

    door: bool = True


@dataclass(frozen=True, kw_only=True, eq=False)
class Held:
    """A value that is equal to itself alone."""

    name: str


@dataclasses.dataclass(frozen=True, kw_only=True)
class Usual:
    """The same fields, as the standard library makes them."""

    name: str
    books: tuple[str, ...] = ()


def test_equal_values_are_equal_and_one_key() -> None:
    """By the fields that are compared, whatever was computed of them; other classes are never equal."""
    one, other = Shelf(name="a", books=("x",), notes=["n"]), Shelf(name="a", books=("x",))
    assert one.first == "x"

    assert one == other
    assert len({one, other}) == 1
    assert one != Shelf(name="b", books=("x",))
    assert one != Cupboard(name="a", books=("x",))
    assert Held(name="a") != Held(name="a")


def test_fields_have_defaults_of_their_own() -> None:
    """Each value gets a new list; a value shows its fields but those that are kept from sight."""
    assert Shelf(name="a").notes is not Shelf(name="a").notes
    assert repr(Cupboard(name="a", secret="s")) == "Cupboard(name='a', books=(), notes=[], door=True)"


@pytest.mark.parametrize("given", [{}, {"name": "a", "height": 2}])
def test_values_that_do_not_fit_are_refused(given: dict[str, object]) -> None:
    """As the standard library refuses them, by a TypeError that names the field."""
    for cls in (Shelf, Usual):
        with pytest.raises(TypeError, match="height" if given else "name"):
            cls(**given)  # type: ignore[arg-type]


def test_a_value_is_checked_when_it_is_made() -> None:
    """Also one of a class below, and one that is made of another."""
    with pytest.raises(ValueError, match="has a name"):
        Cupboard(name="")
    with pytest.raises(ValueError, match="has a name"):
        dataclasses.replace(Shelf(name="a"), name="")


def test_a_value_does_not_change() -> None:
    """Neither a field nor a new name can be set or deleted."""
    shelf = Shelf(name="a")

    for name in ("name", "colour"):
        with pytest.raises(dataclasses.FrozenInstanceError):
            setattr(shelf, name, "b")
    with pytest.raises(dataclasses.FrozenInstanceError):
        del shelf.name  # type: ignore[misc]


def test_the_standard_library_sees_a_dataclass() -> None:
    """`fields`, `asdict`, `replace`, `copy` and `pickle` do what they do with its own."""
    shelf = Cupboard(name="a", books=("x",))

    assert dataclasses.is_dataclass(shelf)
    assert [field.name for field in dataclasses.fields(shelf)] == ["name", "books", "notes", "secret", "door"]
    assert dataclasses.asdict(shelf)["books"] == ("x",)
    assert dataclasses.replace(shelf, door=False) == Cupboard(name="a", books=("x",), door=False)
    assert copy.deepcopy(shelf) == pickle.loads(pickle.dumps(shelf)) == shelf
