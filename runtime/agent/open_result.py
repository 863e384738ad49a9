"""What `Agent.open()` and its like return: something to await, or to open with `async with`."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Generator
from contextlib import AbstractAsyncContextManager
from functools import wraps
from types import TracebackType
from typing import TYPE_CHECKING, Any, Generic, NoReturn, ParamSpec, TypeVar

P = ParamSpec("P")


T = TypeVar("T", bound=AbstractAsyncContextManager[Any])


class Opening(Coroutine[Any, Any, T], Generic[T]):
    """The result of `Agent.open()`: `async with Agent.open() as agent:`, or `agent = await Agent.open()`."""

    def __init__(self, coroutine: Coroutine[Any, Any, T], name: str) -> None:
        self._coroutine = coroutine
        self._name = name
        self._opened: T | None = None

    def __await__(self) -> Generator[Any, Any, T]:
        return self._coroutine.__await__()

    def send(self, value: Any) -> Any:
        return self._coroutine.send(value)

    def throw(self, *error: Any) -> Any:
        return self._coroutine.throw(*error)

    def close(self) -> None:
        self._coroutine.close()

    async def __aenter__(self) -> T:
        self._opened = await self._coroutine
        await self._opened.__aenter__()
        return self._opened

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._opened is not None
        await self._opened.__aexit__(kind, error, trace)

    if not TYPE_CHECKING:  # a type checker says by itself that there is no such method or attribute

        def __enter__(self) -> NoReturn:
            self.close()
            blocking = ", or `with nacre.BlockingAgent.open(…)` without an event loop"
            raise TypeError(
                f"`with {self._name}(…)` lacks `async`. Write `async with {self._name}(…) as opened:`"
                f"{blocking if self._name == 'Agent.open' else ''}."
            )

        def __exit__(self, *error: object) -> None:
            """`with` looks for it before it calls `__enter__`."""

        def __getattr__(self, name: str) -> NoReturn:
            raise AttributeError(
                f"{name!r} was asked of {self._name}(), which is not awaited. "
                f"Write `async with {self._name}(…) as opened:` or `opened = await {self._name}(…)`."
            )


def opening(function: Callable[P, Coroutine[Any, Any, T]]) -> Callable[P, Opening[T]]:
    """Lets the result of an async function be used with `await` and with `async with`."""

    @wraps(function)
    def call(*arguments: P.args, **options: P.kwargs) -> Opening[T]:
        return Opening(function(*arguments, **options), function.__qualname__)

    return call
