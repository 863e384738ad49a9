"""The command `nacre admin log`: the last lines of the log, and new ones."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections import deque
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import BinaryIO

import click

from nacre.cli.invocation import Invocation, begin, json_option, shared_options

SHOWN_LINES = 20
LOOK_SECONDS = 0.25


@click.command("log")
@click.option("-f", "--follow", is_flag=True, help="Also show new lines, until Ctrl-C.")
@click.option(
    "-n",
    "--lines",
    "count",
    metavar="N",
    type=click.IntRange(min=0),
    default=SHOWN_LINES,
    help=f"Number of lines; default: {SHOWN_LINES}.",
)
@json_option("Print the lines unchanged, one JSON object each.")
@shared_options
def command(context: click.Context, follow: bool, count: int, as_json: bool) -> int:
    """Show the end of the log, which never contains what people said."""
    from nacre.cli.signals import run_until_signal

    invocation = begin(context)
    return run_until_signal(_show(invocation, count, follow=follow, as_json=as_json))


async def _show(invocation: Invocation, count: int, *, follow: bool, as_json: bool) -> int:
    path = invocation.log_file
    with _open(path) as file:
        for line in deque(_whole_lines(file), maxlen=count):
            _print(invocation, line, as_json=as_json)
        if follow:
            async for line in _new_lines(path, file):
                _print(invocation, line, as_json=as_json)
    return 0


async def _new_lines(path: Path, file: BinaryIO) -> AsyncIterator[bytes]:
    """The lines after the current place in the file, and those of the files that replace it.

    Closes the file at the end.
    """
    try:
        while True:
            is_other = _is_other(path, file)
            for line in _whole_lines(
                file
            ):  # after the check, so that no line before the replacement is missed
                yield line
            if is_other:
                file.close()
                file = _open(path)
            else:
                await asyncio.sleep(LOOK_SECONDS)
    finally:
        file.close()


def _whole_lines(file: BinaryIO) -> Iterator[bytes]:
    """The complete lines up to the end; an incomplete one is left for the next call."""
    while line := file.readline():
        if not line.endswith(b"\n"):
            file.seek(-len(line), os.SEEK_CUR)
            return
        yield line


def _is_other(path: Path, file: BinaryIO) -> bool:
    try:
        return not os.path.samestat(path.stat(), os.fstat(file.fileno()))
    except FileNotFoundError:  # between the renaming of one file and the first line of the next
        return False


def _open(path: Path) -> BinaryIO:
    try:
        return path.open("rb")
    except FileNotFoundError:
        raise click.ClickException(f"There is no log in {path} yet.") from None


def _print(invocation: Invocation, line: bytes, *, as_json: bool) -> None:
    from nacre.cli.screen.json_text import escaped_controls

    text = line.decode("utf-8", "replace").rstrip("\n")
    if as_json:
        sys.stdout.write(escaped_controls(text) + "\n")
        sys.stdout.flush()
        return
    try:
        entry = json.loads(text)
        head = (
            f"{entry['at']} {entry['level']:<7} {entry['logger'].removeprefix('nacre.')}: {entry['message']}"
        )
        trace = str(entry.get("trace", "")).splitlines()
    except (ValueError, KeyError, TypeError, AttributeError):
        head, trace = text, []
    invocation.say(head, *(f"    {each}" for each in trace))
