"""Measures what a turn, a chat and a note cost in a database, and writes it for docs/engineering/scale.md.

    python -m benchmarks.beside.scale.measure rows|loads|flushed|fleets postgresql://…
        [--seconds 16] [--rates 2,8,16] [--write]

The database must be an empty one, on this machine, whose `/proc` says how long which process computed. A
message goes all the way: from a server of chats through a gateway, the database, a worker with a model on
loopback, and back, each in a process of its own. `--rates` are messages a second, which come by chance; the
highest one is also what the costs of a turn are taken from. `loads` is for a server that does not wait for
its disk (`fsync = off`, as with a protected cache), `flushed` for one that does; `rows` are bytes, and
agents; `fleets` are one, two and four workers.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import time
from typing import Any

from benchmarks.beside.scale.agents import agents_cost
from benchmarks.beside.scale.arithmetic import LOAD_SECONDS, MEASURED
from benchmarks.beside.scale.kept import bytes_kept
from benchmarks.beside.scale.turns import fleets, loads


async def _measured(told: argparse.Namespace) -> dict[str, Any]:
    found: dict[str, Any] = {"day": time.strftime("%Y-%m-%d"), "cores": os.cpu_count()}
    if told.what == "rows":
        return {**found, "agents": await agents_cost(told.url), "bytes": await bytes_kept(told.url)}
    if told.what == "fleets":
        return {"fleets": await fleets(told.url, told.seconds)}
    return {**found, told.what: await loads(told.url, told.rates, told.seconds)}


def main() -> None:
    """Prints what was measured, as JSON; `--write` keeps it for the page, beside what was kept before."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("what", choices=("rows", "loads", "flushed", "fleets"))
    parser.add_argument("url")
    parser.add_argument("--seconds", type=float, default=LOAD_SECONDS)
    parser.add_argument("--rates", type=lambda text: [*map(float, text.split(","))], default=[2.0, 8.0, 16.0])
    parser.add_argument("--write", action="store_true")
    told = parser.parse_args()
    found = asyncio.run(_measured(told))
    print(json.dumps(found, indent=2))
    if told.write:
        kept = json.loads(MEASURED.read_text(encoding="utf-8")) if MEASURED.exists() else {}
        MEASURED.write_text(json.dumps({**kept, **found}, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
