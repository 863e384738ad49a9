"""How much workers have to do, in figures: for `nacre status`, and for programs that watch. Pure."""

from __future__ import annotations

from nacre.bridges.workers.turn_rows import OpenTurns


def figures_at_work(turns: OpenTurns, workers: int) -> dict[str, float]:
    """What `opening.at_work` found, by names with their units.

    `waiting` and `running` turns, `waiting_seconds` of the oldest that waits, `oldest_seconds` since the oldest
    of all was asked for, sessions held (`leases`) and those whose holder went silent (`leases_run_out`),
    `workers` that live. All are gauges.
    """
    return {
        "waiting": turns.waiting,
        "running": turns.running,
        "waiting_seconds": turns.waiting_seconds,
        "oldest_seconds": turns.oldest_seconds,
        "leases": turns.leases,
        "leases_run_out": turns.leases_run_out,
        "workers": workers,
    }
