"""How much workers have to do, in figures: for `nacre status`, and for programs that watch. Pure."""

from __future__ import annotations

from nacre.bridges.workers.turn_rows import OpenTurns


def figures_at_work(turns: OpenTurns, workers: int) -> dict[str, float]:
    """What `opening.at_work` found, by names with their units.

    `waiting` and `running` are turns, `waiting_seconds` is for how long the oldest that waits has,
    `oldest_seconds` when the oldest of all was asked for. `leases` are sessions that are held,
    `leases_run_out` those whose holder went silent, `workers` those that live. All are gauges.
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
