"""Turns that wait for cores, processes and places: a simulation, event by event. Pure.

A turn is received by a gateway, handed out by the database, run by a worker that waits for its model, and
sent by the gateway once it has looked. A Python process computes one thing at a time; a worker has places
for so many turns at once. How long each computing takes is drawn around its mean.
"""

from __future__ import annotations

import heapq
import math
import random
import statistics
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import count
from typing import TypeAlias


@dataclass(frozen=True, kw_only=True)
class Costs:
    """What a turn costs, in seconds: computing of each kind of process, and waiting for the model."""

    gateway: float
    worker: float
    database: float
    outside: float = 0.0
    model: float = 0.0
    look: float = 0.1
    """The longest time until a gateway sees an outcome."""
    other_waits: float = 0.0
    """What an unhurried turn waits for besides: queues that look, round trips, the disk."""

    @property
    def computing(self) -> float:
        """Of all processes together."""
        return self.gateway + self.worker + self.database + self.outside


@dataclass(frozen=True, kw_only=True)
class Machines:
    """How many cores each kind of process has. With `shared` they all have those, and the others say nothing.

    `gateways` and `workers` are processes, and a worker runs `at_once` turns at most.
    """

    workers: int
    at_once: int
    gateways: int = 1
    shared: float = 0.0
    database_cores: int = 1


@dataclass(frozen=True, kw_only=True)
class Course:
    """How it went: turns a second, and seconds from a message to its answer."""

    turns_a_second: float
    mean: float
    p50: float
    p95: float


@dataclass
class _Places:
    """So many at once; who comes when all are taken waits in line."""

    free: int
    line: deque[_Turn] = field(default_factory=deque)


_Turn: TypeAlias = "Iterator[tuple[str, _Places | None, float]]"


class _World:
    def __init__(self, costs: Costs, machines: Machines, chance: random.Random) -> None:
        self.now = 0.0
        self.took: list[float] = []
        self._costs, self._chance = costs, chance
        # Half a core that others leave is a core that takes twice as long.
        cores = max(1, round(machines.shared))
        self._pace = cores / machines.shared if machines.shared else 1.0
        everywhere = _Places(cores)
        self._is_shared = bool(machines.shared)
        self._worker_cores = everywhere if self._is_shared else _Places(machines.workers)
        self._gateway_cores = everywhere if self._is_shared else _Places(machines.gateways)
        self._database_cores = everywhere if self._is_shared else _Places(machines.database_cores)
        self._gateways = [_Places(1) for _ in range(machines.gateways)]
        self._workers = [_Places(1) for _ in range(machines.workers)]
        self._turns_of = [0] * machines.workers
        self._slots = _Places(machines.workers * machines.at_once)
        self._events: list[tuple[float, int, _Turn]] = []
        self._numbers = count()

    def run(self, arrivals: list[float]) -> None:
        """Until the last turn is answered."""
        for at in arrivals:
            heapq.heappush(self._events, (at, next(self._numbers), self._turn(at)))
        while self._events:
            self.now, _, turn = heapq.heappop(self._events)
            self._advance(turn)

    def _advance(self, turn: _Turn) -> None:
        for what, places, seconds in turn:
            if what == "wait":
                heapq.heappush(self._events, (self.now + seconds, next(self._numbers), turn))
                return
            assert places is not None
            if what == "leave" and places.line:
                heapq.heappush(self._events, (self.now, next(self._numbers), places.line.popleft()))
            elif what == "leave":
                places.free += 1
            elif places.free:
                places.free -= 1
            else:
                places.line.append(turn)
                return

    def _turn(self, arrived: float) -> _Turn:
        costs = self._costs
        gateway = self._chance.choice(self._gateways)
        yield from self._compute(gateway, self._gateway_cores, costs.gateway / 2)
        yield from self._compute(None, self._database_cores, costs.database / 3)
        yield ("take", self._slots, 0.0)
        number = min(range(len(self._workers)), key=self._turns_of.__getitem__)
        self._turns_of[number] += 1
        worker = self._workers[number]
        for _ in range(2):
            yield from self._compute(worker, self._worker_cores, costs.worker / 2)
            yield from self._compute(None, self._database_cores, costs.database / 3)
            yield ("wait", None, (costs.model + costs.other_waits) / 2)
        self._turns_of[number] -= 1
        yield ("leave", self._slots, 0.0)
        yield ("wait", None, self._chance.uniform(0, costs.look))
        yield from self._compute(gateway, self._gateway_cores, costs.gateway / 2)
        if self._is_shared:
            yield from self._compute(None, self._worker_cores, costs.outside)
        self.took.append(self.now - arrived)

    def _compute(self, process: _Places | None, cores: _Places, mean_seconds: float) -> _Turn:
        if not mean_seconds:
            return
        if process is not None:
            yield ("take", process, 0.0)
        yield ("take", cores, 0.0)
        yield ("wait", None, self._chance.expovariate(1 / (mean_seconds * self._pace)))
        yield ("leave", cores, 0.0)
        if process is not None:
            yield ("leave", process, 0.0)


def course(costs: Costs, machines: Machines, *, turns_a_second: float, turns: int = 2_000) -> Course:
    """How it goes when messages come by chance, so many a second on average."""
    chance = random.Random(7)
    arrivals, at = [], 0.0
    for _ in range(turns):
        at += chance.expovariate(turns_a_second)
        arrivals.append(at)
    world = _World(costs, machines, chance)
    world.run(arrivals)
    took = sorted(world.took)
    return Course(
        turns_a_second=turns / world.now,
        mean=statistics.fmean(took),
        p50=took[len(took) // 2],
        p95=took[len(took) * 95 // 100],
    )


def limits(costs: Costs, machines: Machines) -> dict[str, float]:
    """Turns a second at which each of the machines, or the places for turns, has nothing left: arithmetic."""
    held = costs.worker + costs.database * 2 / 3 + costs.model + costs.other_waits
    cores = machines.shared or float(machines.database_cores)
    computed = costs.computing if machines.shared else costs.database
    return {
        "places for turns (`--at-once`)": _ratio(machines.workers * machines.at_once, held),
        "workers": _ratio(machines.workers, costs.worker),
        "gateways": _ratio(machines.gateways, costs.gateway),
        "cores": _ratio(cores, computed),
    }


def most(costs: Costs, machines: Machines) -> float:
    """Turns a second at which the first of them has nothing left."""
    return min(limits(costs, machines).values())


def _ratio(there: float, wanted: float) -> float:
    return there / wanted if wanted else math.inf
