"""Edits and signs of typing come at most so often, always with the newest value."""

from __future__ import annotations

import asyncio

from nacre.bridges.answering.turns import Throttle, repeat


class _Ticks:
    """A clock that moves when the test says so."""

    def __init__(self) -> None:
        self.waits: list[float] = []
        self._gate = asyncio.Semaphore(0)

    async def sleep(self, seconds: float) -> None:
        """Waits for the next `tick`."""
        self.waits.append(seconds)
        await self._gate.acquire()

    def tick(self) -> None:
        """Lets one wait end."""
        self._gate.release()


async def _settled() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


async def test_only_the_newest_value_is_acted_on() -> None:
    """The first at once; of what comes meanwhile the last, after the wait; then the first at once again."""
    ticks, done = _Ticks(), list[int]()

    async def act(value: int) -> None:
        done.append(value)

    throttle = Throttle(act, seconds=1.5, sleep=ticks.sleep)
    for value in (1, 2, 3):
        throttle.put(value)
        await _settled()
    assert done == [1]
    ticks.tick()
    await _settled()
    assert done == [1, 3]
    ticks.tick()
    await _settled()
    throttle.put(4)
    await _settled()
    assert done == [1, 3, 4]
    assert ticks.waits == [1.5] * 3
    await throttle.close()


async def test_closing_waits_for_what_is_being_done_and_begins_nothing() -> None:
    """An edit on its way is finished, so that it cannot come behind the final text."""
    ticks, begun, done, go = _Ticks(), list[int](), list[int](), asyncio.Event()

    async def act(value: int) -> None:
        begun.append(value)
        await go.wait()
        done.append(value)

    throttle = Throttle(act, seconds=1, sleep=ticks.sleep)
    throttle.put(1)
    await _settled()
    throttle.put(2)
    closing = asyncio.create_task(throttle.close())
    await _settled()
    assert not closing.done()
    go.set()
    await closing
    assert (begun, done) == ([1], [1])


async def test_what_fails_is_not_tried_again_and_raises_nowhere() -> None:
    """A channel that refuses edits costs no answer."""
    ticks, tries = _Ticks(), list[int]()

    async def act(value: int) -> None:
        tries.append(value)
        raise ConnectionError("gone")

    throttle = Throttle(act, seconds=1, sleep=ticks.sleep)
    throttle.put(1)
    await _settled()
    throttle.put(2)
    await _settled()
    await throttle.close()
    assert tries == [1]


async def test_a_sign_is_repeated_until_it_is_cancelled() -> None:
    """Typing is shown again after each of its spans."""
    ticks, shown = _Ticks(), list[str]()

    async def act() -> None:
        shown.append("typing")

    task = asyncio.create_task(repeat(act, seconds=4, sleep=ticks.sleep))
    await _settled()
    ticks.tick()
    await _settled()
    assert shown == ["typing", "typing"]
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
