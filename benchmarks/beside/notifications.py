"""How many transactions a second a server commits that write a row, beside those that also notify.

    python -m benchmarks.beside.notifications postgresql://… [--connections 16] [--seconds 4]

The server must wait for its disk (`fsync = on`). Each connection repeats one of three: a statement that
writes, one that writes and notifies, and one that writes with another behind it that notifies. There are
three rounds in turns.
"""

from __future__ import annotations

import argparse
import threading
import time
from collections.abc import Callable
from statistics import median

import psycopg

WRITE = b"INSERT INTO notifications_bench VALUES ('a turn')"
NOTIFY = b"SELECT pg_notify('notifications_bench', 'a turn')"
BOTH = (
    b"WITH added AS (" + WRITE + b" RETURNING 1) SELECT pg_notify('notifications_bench', 'a turn') FROM added"
)
KINDS = {"write": (WRITE,), "write and notify": (BOTH,), "write, then notify": (WRITE, NOTIFY)}
ROUNDS = 3


def _repeat(url: str, statements: tuple[bytes, ...], until: float, done: Callable[[], object]) -> None:
    with psycopg.connect(url, autocommit=True) as connection:
        while time.monotonic() < until:
            for statement in statements:
                connection.execute(statement)
            done()


def _a_second(url: str, statements: tuple[bytes, ...], connections: int, seconds: float) -> float:
    done: list[int] = []
    began = time.monotonic()
    arguments = (url, statements, began + seconds, lambda: done.append(1))
    threads = [threading.Thread(target=_repeat, args=arguments) for _ in range(connections)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return len(done) / (time.monotonic() - began)


def main() -> None:
    """Prints the medians of the rounds, and each round."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("url")
    parser.add_argument("--connections", type=int, default=16)
    parser.add_argument("--seconds", type=float, default=4.0)
    told = parser.parse_args()
    with psycopg.connect(told.url, autocommit=True) as connection:
        connection.execute("CREATE TABLE IF NOT EXISTS notifications_bench (word TEXT)")
    found: dict[str, list[float]] = {kind: [] for kind in KINDS}
    for _ in range(ROUNDS):
        for kind, statements in KINDS.items():
            found[kind].append(_a_second(told.url, statements, told.connections, told.seconds))
    for kind, rounds in found.items():
        print(f"{kind}: {median(rounds):,.0f} a second", *(f"{each:,.0f}" for each in rounds))


if __name__ == "__main__":
    main()
