"""From what was measured to what so many assistants need: each number with its formula. Pure."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.beside.scale.queueing import Costs

MEASURED = Path(__file__).with_name("measured.json")
STEPS = (100, 1_000, 10_000, 100_000, 1_000_000, 10_000_000)

# What was measured with: a model on loopback, and workers.
LOOPBACK_SECONDS = 0.5
WORKERS, AT_ONCE = 2, 16
LOAD_SECONDS = 16.0

# What assistants are taken to do; the page says so above its table.
TURNS_A_DAY = 10
PEAK = 3
"""The busiest hour has so many times the turns of an average one."""
MODEL_SECONDS = 5.0
CHUNKS, NOTES = 500, 100
BUSY = 0.6
"""Of what a process can compute, so much is planned with: above it, waits grow."""
DAYS = 365

# What one of each bears, as far as this arithmetic goes.
LISTED_AGENTS = 1_000
"""In one state folder; the places of all are compared whenever one of them is opened."""
SERVER_CORES, SERVER_CONNECTIONS, SERVER_BYTES = 64, 1_000, 8e12
WORKER_CONNECTIONS = 3 + 1
"""Of everything, and the one that listens."""
GATEWAY_CONNECTIONS = 8 + 2
"""Of the stores, the ledger's lock, and the one that listens."""


@dataclass(frozen=True, kw_only=True)
class Need:
    """What so many assistants need at the busiest hour."""

    assistants: int
    turns_a_second: float
    under_way: float
    worker_processes: int
    gateways: int
    database_cores: float
    connections: int
    rows_bytes: float
    log_bytes_a_second: float
    cells: int

    @property
    def servers(self) -> int:
        """Database servers, by whichever of cores, connections and rows asks for most."""
        return max(math.ceil(value) for value in self.shares.values())

    @property
    def shares(self) -> Mapping[str, float]:
        """How much of one server each of its limits is."""
        return {
            "cores": self.database_cores / SERVER_CORES,
            "connections": self.connections / SERVER_CONNECTIONS,
            "rows": self.rows_bytes / SERVER_BYTES,
        }


def measured() -> dict[str, Any]:
    """What `measure --write` wrote."""
    found: dict[str, Any] = json.loads(MEASURED.read_text(encoding="utf-8"))
    return found


def costs_of(load: Mapping[str, float], *, model: float, other_waits: float = 0.0) -> Costs:
    """What a turn costs, by a load that was measured."""
    return Costs(
        gateway=load["gateway_seconds"],
        worker=load["worker_seconds"],
        database=load["database_seconds"],
        outside=load["outside_seconds"],
        model=model,
        other_waits=other_waits,
    )


def need(found: Mapping[str, Any], assistants: int) -> Need:
    """By the costs of a turn at the busiest load that was measured."""
    load, kept = found["loads"][-1], found["bytes"]
    peak = assistants * TURNS_A_DAY * PEAK / 86_400
    cells = math.ceil(assistants / LISTED_AGENTS)
    under_way = peak * (MODEL_SECONDS + load["worker_seconds"])
    workers = max(cells, math.ceil(peak * load["worker_seconds"] / BUSY), math.ceil(under_way / AT_ONCE))
    gateways = max(cells, math.ceil(peak * load["gateway_seconds"] / BUSY))
    an_assistant = kept["chat"] + CHUNKS * kept["chunk"] + NOTES * kept["note"]
    return Need(
        assistants=assistants,
        turns_a_second=peak,
        under_way=under_way,
        worker_processes=workers,
        gateways=gateways,
        database_cores=peak * load["database_seconds"] / BUSY,
        connections=workers * WORKER_CONNECTIONS + gateways * GATEWAY_CONNECTIONS,
        rows_bytes=assistants * (an_assistant + DAYS * TURNS_A_DAY * load["kept_bytes"]),
        log_bytes_a_second=peak * load["log_bytes"],
        cells=cells,
    )


def most_turns_of_a_gateway(found: Mapping[str, Any]) -> float:
    """Turns a second of one gateway, whose Python computes one thing at a time."""
    return float(BUSY / found["loads"][-1]["gateway_seconds"])
