"""Frozen, keyword-only dataclasses that are made without generating code.

`dataclass(frozen=True, kw_only=True)` of the standard library compiles up to eight functions for each class,
which is a quarter of what a cold search takes. Here all classes share these functions. To a type checker, to
`fields`, `replace`, `asdict` and `copy` there is no difference.
"""

from __future__ import annotations

import dataclasses
from functools import partial
from operator import attrgetter
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from dataclasses import dataclass as dataclass
else:

    def dataclass(*, frozen: bool, kw_only: bool, eq: bool = True) -> Callable[[type], type]:
        """What `dataclasses.dataclass` does for a class that is frozen and takes keywords alone.

        Without `eq` two values are equal when they are the same object.
        """
        if not (frozen and kw_only):
            raise TypeError(
                "Only frozen dataclasses with keywords are made here; dataclasses has the others."
            )
        return partial(_made, methods=_METHODS | _EQUALITY if eq else _METHODS)


class _Shape:
    """What the shared methods have to know of a class."""

    __slots__ = ("compared", "defaults", "factories", "has_check", "names", "shown")

    def __init__(self, made: Any) -> None:
        fields = dataclasses.fields(made)
        self.has_check = hasattr(made, "__post_init__")
        self.names = frozenset(field.name for field in fields)
        self.defaults = {
            field.name: field.default for field in fields if field.default is not dataclasses.MISSING
        }
        self.factories = tuple(
            (field.name, field.default_factory)
            for field in fields
            if field.default_factory is not dataclasses.MISSING
        )
        self.shown = tuple(field.name for field in fields if field.repr)
        compared = [field.name for field in fields if field.compare]
        self.compared: Callable[[Any], Any] = attrgetter(*compared) if compared else lambda _value: ()


def _made(cls: type, *, methods: Mapping[str, Callable[..., Any]]) -> type:
    cls.__doc__ = cls.__doc__ or cls.__name__  # else the standard library computes a signature for it
    made: Any = dataclasses.dataclass(init=False, repr=False, eq=False, kw_only=True)(cls)
    made._frozen_shape = _Shape(made)
    for name, method in methods.items():
        if name not in cls.__dict__:
            setattr(made, name, method)
    return cls


def _init(self: Any, /, **given: Any) -> None:
    values, shape = self.__dict__, self._frozen_shape
    values.update(shape.defaults)
    values.update(given)
    for name, make in shape.factories:
        if name not in given:
            values[name] = make()
    if values.keys() != shape.names:
        raise TypeError(_not_fitting(type(self), given, shape))
    if shape.has_check:
        self.__post_init__()


def _not_fitting(cls: type, given: dict[str, Any], shape: _Shape) -> str:
    unknown = given.keys() - shape.names
    if unknown:
        return f"{cls.__qualname__} has no {', '.join(sorted(unknown))}"
    missing = shape.names - given.keys() - shape.defaults.keys() - dict(shape.factories).keys()
    return f"{cls.__qualname__} needs {', '.join(sorted(missing))}"


def _repr(self: Any) -> str:
    shown = ", ".join(f"{name}={getattr(self, name)!r}" for name in self._frozen_shape.shown)
    return f"{type(self).__qualname__}({shown})"


def _eq(self: Any, other: Any) -> Any:
    if type(other) is not type(self):
        return NotImplemented
    compared = self._frozen_shape.compared
    return compared(self) == compared(other)


def _hash(self: Any) -> int:
    return hash(self._frozen_shape.compared(self))


def _setattr(_self: Any, name: str, _value: object) -> None:
    raise dataclasses.FrozenInstanceError(f"cannot assign to field {name!r}")


def _delattr(_self: Any, name: str) -> None:
    raise dataclasses.FrozenInstanceError(f"cannot delete field {name!r}")


_METHODS = {
    "__init__": _init,
    "__repr__": _repr,
    "__setattr__": _setattr,
    "__delattr__": _delattr,
}
_EQUALITY = {"__eq__": _eq, "__hash__": _hash}
