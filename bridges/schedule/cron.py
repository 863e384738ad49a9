"""Cron expressions. Edge: the only file that imports cronsim, which keeps to Debian's cron.

Expressions have five fields and mean the clock of the owner's zone. A time that the zone skips in spring is
the moment of the jump; of one that comes twice in autumn the first counts, and a `*` in the hour is both.
"""

from __future__ import annotations

from datetime import UTC, datetime

FIELDS = 5


class CronUnreadable(ValueError):
    """An expression that is none, or that never comes; the text says which."""


def next_run(expression: str, after: datetime) -> datetime:
    """The first time behind `after` that an expression names, in the zone of `after`.

    Raises:
        CronUnreadable: it is no cron expression, or names a day that never comes.
    """
    from cronsim import CronSim, CronSimError

    if len(expression.split()) != FIELDS:
        raise CronUnreadable(
            f"{expression!r} is no cron expression: it needs {FIELDS} fields, as in '0 9 * * MON-FRI' "
            "(minute, hour, day, month, day of the week)."
        )
    try:
        runs = CronSim(expression.upper(), after)
        while (run := next(runs)).astimezone(UTC) <= after.astimezone(UTC):
            pass  # in the hour that comes twice it may name the first one again
    except CronSimError as error:
        raise CronUnreadable(f"{expression!r} is no cron expression: {error}.") from error
    except StopIteration as error:
        raise CronUnreadable(f"{expression!r} names a day that never comes.") from error
    return run.astimezone(UTC).astimezone(after.tzinfo)


def runs_until(expression: str, first: datetime, end: datetime, *, most: int = 1_000) -> int:
    """How many runs there are from `first`, which is one, until `end`; at most `most`.

    Raises as `next_run`.
    """
    count, run = 1, first
    while count < most and (run := next_run(expression, run)).astimezone(UTC) <= end.astimezone(UTC):
        count += 1
    return count
