"""The command `nacre memory meter`: the sizes of the files of the context."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import click

from nacre.cli.invocation import Invocation, begin, json_option, shared_options
from nacre.cli.memory.text import level
from nacre.cli.screen.json_text import print_json

if TYPE_CHECKING:
    from nacre.memory.workspace.workspace import ContextFile

_TIGHT = 0.9
"""A file above this share is about to be cut."""


@click.command("meter")
@json_option()
@shared_options
def meter(context: click.Context, as_json: bool) -> int:
    """Show how full MEMORY.md and the other files of the context are.

    A file above its limit is cut, and only a search finds the rest. The exit code is 1 if a file is cut.
    """
    from nacre.cli.signals import run_until_signal

    return run_until_signal(_meter(begin(context), as_json=as_json))


async def _meter(invocation: Invocation, *, as_json: bool) -> int:
    from nacre.runtime.agent.insight.model_facts import token_counter, workspace_files

    config = invocation.config
    agent = config.settings.agent
    files = [file for file in await workspace_files(config, config.clock) if not file.missing]
    count = token_counter(config.model_name)
    limits = (agent.bootstrap_max_chars, agent.bootstrap_total_max_chars)
    if as_json:
        print_json(_json(files, limits, count))
    else:
        invocation.say(*meter_lines(files, limits, count))
    return int(any(file.truncated for file in files))


def meter_lines(
    files: Sequence[ContextFile], limits: tuple[int, int], count: Callable[[str], int]
) -> list[str]:
    """A line for each file and one for all; `limits` are the most characters of one file and of all files."""
    most_of_one, most_of_all = limits
    wide = max([len("together"), *(len(file.name) for file in files)])
    lines = []
    for file in files:
        line = f"{file.name:<{wide}}  {level(file.raw_chars, most_of_one)}, {count(file.text):,} tokens"
        if file.truncated:
            line += f" · cut: {file.injected_chars:,} characters are sent, only a search finds the rest"
        elif file.raw_chars >= _TIGHT * most_of_one:
            line += " · almost full"
        lines.append(line)
    raw, tokens = sum(file.raw_chars for file in files), sum(count(file.text) for file in files)
    return [*lines, f"{'together':<{wide}}  {level(raw, most_of_all)}, {tokens:,} tokens"]


def _json(
    files: Sequence[ContextFile], limits: tuple[int, int], count: Callable[[str], int]
) -> dict[str, Any]:
    return {
        "files": [
            {
                "name": file.name,
                "chars": file.raw_chars,
                "seenChars": file.injected_chars,
                "tokens": count(file.text),
                "isCut": file.truncated,
            }
            for file in files
        ],
        "maxChars": limits[0],
        "totalMaxChars": limits[1],
    }
