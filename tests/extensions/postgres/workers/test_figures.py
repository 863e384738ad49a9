"""Figures of workers have their units in their names."""

from __future__ import annotations

from nacre.extensions.postgres.workers.turn_rows import OpenTurns
from nacre.extensions.postgres.workers.worker import figures_of


def test_each_figure_is_what_was_found() -> None:
    """By its own name, and the workers beside them."""
    found = OpenTurns(
        waiting=3, running=2, waiting_seconds=1.5, oldest_seconds=9.0, leases=2, leases_run_out=1
    )

    assert figures_of(found, 4) == {**vars(found), "workers": 4}
