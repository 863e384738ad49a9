"""Measures what a turn, a chat and a note cost in a database, and writes it for docs/scale.md.

    python -m benchmarks.beside.scale.measure postgresql://… [--turns 400] [--rates 4,8] [--write]

The database must be an empty one, on this machine, whose `/proc` says how long which process computed. A
message goes all the way: from a server of chats through a gateway, the database, a worker with a model on
loopback, and back, each in a process of its own. `--rates` are messages a second, which come by chance; the
highest one is also what the costs of a turn are taken from.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import time
from pathlib import Path
from typing import Any

from benchmarks.beside.scale.kept import bytes_kept
from benchmarks.beside.scale.turns import loads

MEASURED = Path(__file__).with_name("measured.json")


async def _measured(url: str, rates: list[float], turns: int) -> dict[str, Any]:
    return {
        "day": time.strftime("%Y-%m-%d"),
        "cores": os.cpu_count(),
        "bytes": await bytes_kept(url),
        "loads": await loads(url, rates, turns),
    }


def main() -> None:
    """Prints what was measured, as JSON; `--write` keeps it for the page."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("url")
    parser.add_argument("--turns", type=int, default=400)
    parser.add_argument("--rates", type=lambda text: [*map(float, text.split(","))], default=[1.0, 4.0, 8.0])
    parser.add_argument("--write", action="store_true")
    told = parser.parse_args()
    text = json.dumps(asyncio.run(_measured(told.url, told.rates, told.turns)), indent=2) + "\n"
    print(text)
    if told.write:
        MEASURED.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
