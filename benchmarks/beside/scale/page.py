"""The tables of docs/engineering/scale.md, made of what was measured.

    python -m benchmarks.beside.scale.page

A table stands between `<!-- scale: name -->` and `<!-- scale: end -->`; a test compares them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from benchmarks.beside.scale import arithmetic
from benchmarks.beside.scale.queueing import Costs, Machines, course, limits, most

PAGE = Path(__file__).parents[3] / "docs" / "engineering" / "scale.md"
_TABLE = re.compile(r"(<!-- scale: (?!end)(\w+) -->\n).*?(<!-- scale: end -->)", re.DOTALL)
GROWN = (
    Machines(workers=2, at_once=16, database_cores=1),
    Machines(workers=8, at_once=16, database_cores=2),
    Machines(workers=32, at_once=16, database_cores=8, gateways=4),
    Machines(workers=128, at_once=32, database_cores=32, gateways=16),
)
"""Machines that are not here: as many cores as processes, and so many of the server's."""


def with_tables(text: str, found: Mapping[str, Any]) -> str:
    """A page with its tables made anew."""
    return _TABLE.sub(lambda at: f"{at[1]}\n{TABLES[at[2]](found)}\n\n{at[3]}", text)


def _costs(found: Mapping[str, Any]) -> str:
    loads = [("fast", each) for each in found["loads"]] + [("7.8 ms", each) for each in found["flushed"]]
    rows = [
        (
            disk,
            f"{each['asked_a_second']:.0f}",
            *(f"{1_000 * each[name]:.0f}" for name in ("gateway_seconds", "worker_seconds")),
            f"{1_000 * each['database_seconds']:.0f}",
            f"{each['statement_ms']:.0f}",
            f"{each['commits']:.0f}",
            f"{each['p50_seconds']:.2f} / {each['p95_seconds']:.2f}",
        )
        for disk, each in loads
    ]
    head = (
        "A flush of the disk",
        "messages a second",
        "gateway, ms",
        "worker, ms",
        "server, ms",
        "in statements, ms",
        "commits",
        "answered after, p50 / p95, s",
    )
    return _table(head, rows)


def _kept(found: Mapping[str, Any]) -> str:
    kept, load = found["bytes"], found["loads"][-1]
    return _table(
        ("What", "bytes"),
        [
            ("a chat with its first line", f"{kept['chat']:,.0f}"),
            ("a further line of 200 characters", f"{kept['line']:,.0f}"),
            ("a turn, of which most began a chat", f"{found['loads'][0]['kept_bytes']:,.0f}"),
            (
                "a turn in chats that were there: what stays of it in transcripts and sessions",
                f"{load['kept_bytes']:,.0f}",
            ),
            ("a turn: log of the server (WAL)", f"{load['log_bytes']:,.0f}"),
            ("a chunk of a note in the index, with a vector of 384 numbers", f"{kept['chunk']:,.0f}"),
            ("a note of 1,500 characters", f"{kept['note']:,.0f}"),
        ],
    )


def _agents(found: Mapping[str, Any]) -> str:
    return _table(
        ("Agents in `agents.list`", "settings are read in, s", "one more is opened in, s", "and takes, MB"),
        [
            (
                f"{each['listed']:,}",
                f"{each['settings_seconds']:.2f}",
                f"{each['opening_seconds']:.2f}",
                f"{each['open_bytes'] / 1e6:.0f}",
            )
            for each in found["agents"]
        ],
    )


def _fleets(found: Mapping[str, Any]) -> str:
    spent = ("gateway_seconds", "worker_seconds", "database_seconds", "outside_seconds")
    rows = [
        (
            f"{each['workers']:.0f} × 16",
            f"{each['turns_a_second']:.1f}",
            *(f"{1_000 * each[name]:.0f}" for name in spent),
            f"{each['commits']:.0f}",
            f"{each['cores']:.2f}, {each['cores_of_others']:.2f}",
        )
        for each in found["fleets"]
    ]
    head = (
        "Workers × places",
        "turns a second",
        "gateway, ms a turn",
        "workers, ms",
        "server, ms",
        "chats and model, ms",
        "commits",
        "cores of all this, and of others",
    )
    return _table(head, rows)


def _checked(found: Mapping[str, Any]) -> str:
    first, *others = found["loads"]
    bare = arithmetic.costs_of(first, model=arithmetic.LOOPBACK_SECONDS)
    waits = first["p50_seconds"] - arithmetic.LOOPBACK_SECONDS - bare.look / 2 - bare.computing
    rows = []
    for load in (first, *others):
        rate = load["asked_a_second"]
        costs = arithmetic.costs_of(load, model=arithmetic.LOOPBACK_SECONDS, other_waits=max(0.0, waits))
        told = []
        for cores in (found["cores"], found["cores"] - load["cores_of_others"]):
            here = Machines(workers=arithmetic.WORKERS, at_once=arithmetic.AT_ONCE, shared=float(cores))
            turns = round(rate * arithmetic.LOAD_SECONDS)
            told.append((course(costs, here, turns_a_second=rate, turns=turns), most(costs, here)))
        rows.append(
            (
                f"{rate:.0f}",
                f"{load['p50_seconds']:.2f} / {load['p95_seconds']:.2f}",
                *(f"{each.p50:.2f} / {each.p95:.2f}" for each, _ in told),
                " / ".join(f"{top:.0f}" for _, top in told),
            )
        )
    head = (
        "messages a second",
        "measured, p50 / p95, s",
        "simulated with all cores",
        "with those that others left",
        "at most, a second, of each",
    )
    return _table(head, rows)


def _grown(found: Mapping[str, Any]) -> str:
    load = found["loads"][-1]
    costs = arithmetic.costs_of(load, model=arithmetic.MODEL_SECONDS)
    rows = []
    for machines in GROWN:
        top = most(costs, machines)
        told = [course(costs, machines, turns_a_second=share * top) for share in (0.6, 0.9)]
        rows.append(
            (
                f"{machines.gateways}, {machines.workers} × {machines.at_once}, {machines.database_cores}",
                f"{top:.0f}",
                _limit(costs, machines),
                *(f"{each.p50:.2f} / {each.p95:.2f}" for each in told),
            )
        )
    return _table(
        (
            "Gateways, workers × turns at once, cores of the server",
            "at most, turns a second",
            "what ends first",
            "at 60 %, p50 / p95, s",
            "at 90 %",
        ),
        rows,
    )


def _limit(costs: Costs, machines: Machines) -> str:
    found = limits(costs, machines)
    return min(found, key=found.__getitem__)


def _steps(found: Mapping[str, Any]) -> str:
    rows = []
    for assistants in arithmetic.STEPS:
        need = arithmetic.need(found, assistants)
        rows.append(
            (
                f"{assistants:,}",
                f"{need.turns_a_second:,.2f}" if need.turns_a_second < 10 else f"{need.turns_a_second:,.0f}",
                f"{need.under_way:,.1f}" if need.under_way < 10 else f"{need.under_way:,.0f}",
                f"{need.cells:,}",
                f"{need.gateways:,}",
                f"{need.worker_processes:,}",
                f"{need.database_cores:,.2f}" if need.database_cores < 10 else f"{need.database_cores:,.0f}",
                f"{need.connections:,}",
                f"{need.rows_bytes / 1e9:,.1f}",
                f"{need.log_bytes_a_second / 1e6:,.2f}",
                f"{need.servers:,}",
            )
        )
    head = (
        "Assistants",
        "turns a second",
        "turns under way",
        "state folders",
        "gateways",
        "workers",
        "server cores",
        "connections",
        "rows after a year, GB",
        "log, MB a second",
        "servers",
    )
    return _table(head, rows)


def _table(head: tuple[str, ...], rows: list[tuple[str, ...]]) -> str:
    return "\n".join(_lines(head, rows))


def _lines(head: tuple[str, ...], rows: list[tuple[str, ...]]) -> Iterator[str]:
    yield f"| {' | '.join(head)} |"
    yield f"|{'---|' * len(head)}"
    for row in rows:
        yield f"| {' | '.join(row)} |"


TABLES: Mapping[str, Callable[[Mapping[str, Any]], str]] = {
    "costs": _costs,
    "kept": _kept,
    "agents": _agents,
    "fleets": _fleets,
    "checked": _checked,
    "grown": _grown,
    "steps": _steps,
}


def main() -> None:
    """Puts the tables into the page."""
    text = PAGE.read_text(encoding="utf-8")
    PAGE.write_text(with_tables(text, arithmetic.measured()), encoding="utf-8")


if __name__ == "__main__":
    main()
