"""docs/engineering/scale.md says what its program makes of measurements; the simulation obeys known laws."""

from __future__ import annotations

from itertools import pairwise

import pytest

from benchmarks.beside.scale import arithmetic, page
from benchmarks.beside.scale.queueing import Costs, Machines, course, most


def test_the_page_has_the_programs_tables() -> None:
    """Every table, as `python -m benchmarks.beside.scale.page` makes it."""
    text = page.PAGE.read_text(encoding="utf-8")

    assert page.with_tables(text, arithmetic.measured()) == text, "python -m benchmarks.beside.scale.page"
    assert all(f"<!-- scale: {name} -->" in text for name in page.TABLES)


@pytest.mark.parametrize("busy", [0.3, 0.7])
def test_one_process_is_waited_for_as_long_as_theory_says(busy: float) -> None:
    """A turn that only a worker computes, in two halves, on its own core: two visits to one queue, in which
    everybody is 1 / (1 - busy) times their own computing."""
    costs = Costs(gateway=0.0, worker=0.1, database=0.0, look=0.0)
    alone = Machines(workers=1, at_once=1_000)

    told = course(costs, alone, turns_a_second=busy / 0.1, turns=12_000)

    assert told.mean == pytest.approx(0.1 / (1 - busy), rel=0.1)
    assert told.turns_a_second == pytest.approx(busy / 0.1, rel=0.05)


def test_no_more_turns_than_places() -> None:
    """With a model that takes its time, places end before cores: as many turns as fit into it."""
    costs = Costs(gateway=0.001, worker=0.001, database=0.0, model=1.0)
    machines = Machines(workers=2, at_once=4)

    told = course(costs, machines, turns_a_second=50, turns=2_000)

    assert most(costs, machines) == pytest.approx(8, rel=0.01)
    assert told.turns_a_second == pytest.approx(8, rel=0.02)


def test_ten_times_the_assistants_need_ten_times_the_rows() -> None:
    """And never less of anything else."""
    found = arithmetic.measured()
    needs = [arithmetic.need(found, assistants) for assistants in arithmetic.STEPS]

    for less, more in pairwise(needs):
        assert more.rows_bytes == pytest.approx(10 * less.rows_bytes)
        assert more.servers >= less.servers
        assert more.worker_processes >= less.worker_processes
