"""`Record`, the base of values that cross files: a frozen, keyword-only dataclass, cheap to define. Pure.

`@dataclass(frozen=True)` writes six methods as source text and compiles them, for each class and each time
that Python starts, which takes .4 ms. A command that searches once defines a hundred such classes and uses a
third of them. All records share their methods, so that a class costs a twelfth of that.

Values that cross files are records, and so are private ones in files that a search imports. Values made by
the thousand are dataclasses with `slots` or `NamedTuple`s; those that need `order` or `__post_init__` are
dataclasses. `docs/decisions/program.md` has the figures. This is a module of the root, which imports nothing
of Nacre, because sessions and memory both make records.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import MISSING, Field, FrozenInstanceError, dataclass, field, fields
from operator import itemgetter
from typing import TYPE_CHECKING, Any, ClassVar, NoReturn, dataclass_transform

if TYPE_CHECKING:
    from inspect import Signature


_MANY = 50_000
"""So many new values are moved past the younger generations of the garbage collector."""


@contextmanager
def paused_collector() -> Iterator[None]:
    """Pauses the garbage collector while values are made by the hundred thousand, all of which are needed.

    It would walk them again and again in search of cycles, which takes a fifth of the time in which a long
    session is read. Threads may overlap in this: the first one that ends resumes the collector.
    """
    if not gc.isenabled():
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        # A freeze resets the count to the next full collection. So it is only for many values: where small
        # sessions are opened all the time, nothing would ever be collected.
        if gc.get_count()[0] >= _MANY and not gc.get_freeze_count():
            # Moves them into the oldest generation; the younger ones would be searched again and again.
            gc.freeze()
            gc.unfreeze()
        gc.enable()


class _Signature:
    """The signature that `inspect.signature` and editors show of a record, made on demand."""

    def __get__(self, record: object, kind: type[Record]) -> Signature:
        from inspect import Parameter, Signature

        return Signature(
            [
                Parameter(each.name, Parameter.KEYWORD_ONLY, default=_default(each), annotation=each.type)
                for each in kind.__dataclass_fields__.values()
                if each.name in kind._names
            ]
        )


@dataclass_transform(frozen_default=True, kw_only_default=True, field_specifiers=(field,))
class Record:
    """A value with named fields: `class Hit(Record):`, and its fields with their types, as in a dataclass.

    Records are dataclasses for `fields`, `replace`, `asdict` and type checkers. They are made with keywords
    only and never changed; those of one class with the same values are equal and have the same hash. `field`
    may give `default`, `default_factory`, `repr` and `compare`. There is no `__post_init__`.

    A dataclass with `slots`, which takes half the memory, is better for values made by the thousand.
    """

    __dataclass_fields__: ClassVar[dict[str, Field[Any]]]
    _names: ClassVar[frozenset[str]]
    _defaults: ClassVar[dict[str, Any]]
    _factories: ClassVar[dict[str, Callable[[], Any]]]
    _compared: ClassVar[itemgetter[object] | type[type]]
    __signature__ = _Signature()

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()  # a record may be generic
        dataclass(init=False, repr=False, eq=False)(cls)
        own = fields(cls)
        cls._names = frozenset([each.name for each in own])
        cls._defaults = {each.name: each.default for each in own if each.default is not MISSING}
        cls._factories = {
            each.name: each.default_factory for each in own if each.default_factory is not MISSING
        }
        compared = [each.name for each in own if each.compare]
        cls._compared = itemgetter(*compared) if compared else type  # without fields all are equal

    def __init__(self, **values: Any) -> None:
        held = self.__dict__
        held |= self._defaults
        held |= values
        if held.keys() != self._names:
            for name, factory in self._factories.items():
                if name not in held:
                    held[name] = factory()
            if held.keys() != self._names:
                raise TypeError(_refusal(type(self), held))

    def __setattr__(self, name: str, value: object) -> NoReturn:
        raise FrozenInstanceError(f"cannot assign to field {name!r}")

    def __delattr__(self, name: str) -> NoReturn:
        raise FrozenInstanceError(f"cannot delete field {name!r}")

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self):
            return NotImplemented
        return self._compared(self.__dict__) == other._compared(other.__dict__)

    def __hash__(self) -> int:
        return hash(self._compared(self.__dict__))

    def __repr__(self) -> str:
        shown = [f"{each.name}={getattr(self, each.name)!r}" for each in fields(self) if each.repr]
        return f"{type(self).__qualname__}({', '.join(shown)})"


def _refusal(kind: type[Record], held: Mapping[str, object]) -> str:
    if missing := [each.name for each in fields(kind) if each.name not in held]:
        return f"{kind.__qualname__} needs a value for {', '.join(missing)}."
    unknown = ", ".join(name for name in held if name not in kind.__dataclass_fields__)
    return f"{kind.__qualname__} has no field {unknown}."


def _default(of: Field[Any]) -> object:
    from inspect import Parameter

    if of.default_factory is not MISSING:
        return ...
    return Parameter.empty if of.default is MISSING else of.default
