"""Hooks: who is called, in which order, and what a failing handler costs."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

import pytest

from nacre.runtime.hooks.hooks import Hooks


@dataclass(frozen=True)
class Happened:
    type: str = "session_end"
    action: str = "daily"


class Recorder:
    """Handlers that write down that they were called."""

    def __init__(self) -> None:
        self.called: list[str] = []

    def named(self, name: str, *, fails: bool = False) -> _Handler:
        return _Handler(self, name, fails=fails)


class _Handler:
    def __init__(self, recorder: Recorder, name: str, *, fails: bool) -> None:
        self._recorder, self._name, self._fails = recorder, name, fails

    async def __call__(self, event: Happened) -> None:
        await asyncio.sleep(0)
        self._recorder.called.append(f"{self._name} {event.action}")
        if self._fails:
            raise LookupError(f"{self._name} is out of order")


@pytest.mark.covers("A19-3")
async def test_handlers_of_the_kind_run_before_those_of_the_action_in_order() -> None:
    """Each is awaited before the next; those of other events are not called."""
    hooks, recorder = Hooks(), Recorder()
    hooks.on("session_end:daily", recorder.named("specific"))
    hooks.on("session_end", recorder.named("first"))
    hooks.on("session_end", recorder.named("second"))
    hooks.on("session_end:new", recorder.named("other action"))
    hooks.on("before_turn", recorder.named("other kind"))

    assert await hooks.trigger(Happened()) == ()
    assert recorder.called == ["first daily", "second daily", "specific daily"]


@pytest.mark.covers("A19-3")
async def test_a_failing_handler_stops_nobody_else(caplog: pytest.LogCaptureFixture) -> None:
    """It is logged with its trace, and told to whoever triggered."""
    hooks, recorder = Hooks(), Recorder()
    hooks.on("session_end", recorder.named("bad", fails=True))
    hooks.on("session_end", recorder.named("good"))

    [problem] = await hooks.trigger(Happened())

    assert problem == "The hook _Handler failed with LookupError: bad is out of order"
    assert recorder.called == ["bad daily", "good daily"]
    assert caplog.records[0].exc_info is not None


@pytest.mark.covers("A19-3")
async def test_a_handler_can_be_taken_back() -> None:
    """Only that one, also twice; no handler at all is fine, an empty name is not."""
    hooks, recorder = Hooks(), Recorder()
    assert await hooks.trigger(Happened()) == ()
    off = hooks.on("session_end", recorder.named("one"))
    hooks.on("session_end", recorder.named("two"))
    off()
    off()

    await hooks.trigger(Happened())

    assert recorder.called == ["two daily"]
    with pytest.raises(ValueError, match="needs the name of an event"):
        hooks.on(" ", recorder.named("three"))


async def test_a_handler_may_take_itself_back_while_it_runs() -> None:
    """The others of the same event are still called, each once."""
    hooks, recorder = Hooks(), Recorder()

    async def once(event: Happened) -> None:
        off()
        recorder.called.append("once")

    off = hooks.on("session_end", once)
    hooks.on("session_end", recorder.named("next"))
    await hooks.trigger(Happened())
    await hooks.trigger(Happened())

    assert recorder.called == ["once", "next daily", "next daily"]
