"""`/help`, and the answers to unknown commands."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from difflib import get_close_matches

from nacre.runtime.commands.contract.command import Command, CommandRun, Outcome

LEAST_LIKENESS = 0.7
"""The least similarity of a misspelled word: `difflib`'s ratio, where 1 is identical."""

_PLACES = {"private": "in a private chat", "direct": "in a chat with somebody else", "group": "in a group"}


async def _help(run: CommandRun) -> Outcome:
    return run.said(help_text(run.offered))


def help_text(commands: Sequence[Command]) -> str:
    """The commands, one line each."""
    width = max((len(command.usage) for command in commands), default=0)
    lines = [f"{command.usage.ljust(width)}  {command.help}" for command in commands]
    return "\n".join([*lines, "Anything else is said to the assistant."])


def nearest_word(word: str, commands: Sequence[Command], *, likeness: float = LEAST_LIKENESS) -> str:
    """The command word that `word` probably misspells, or an empty string."""
    words = {called.removeprefix("/"): called for command in commands for called in command.called_by}
    found = get_close_matches(word.lower().removeprefix("/"), words, n=1, cutoff=likeness)
    return words[found[0]] if found else ""


async def _unknown(run: CommandRun) -> Outcome:
    nearest = nearest_word(run.rest, run.offered)
    meant = f" Did you mean {nearest}?" if nearest else ""
    return run.said(
        f"There is no command {run.rest}.{meant} These are the commands:\n{help_text(run.offered)}"
    )


async def _elsewhere(run: CommandRun) -> Outcome:
    return run.said(f"{run.rest} /help lists what can be used here.")


HELP = Command(name="help", help="this list", who="anyone", run=_help)
UNKNOWN = Command(name="unknown", help="", who="anyone", run=_unknown)
"""Runs for an unknown command, whose word is its text."""


def elsewhere(command: Command) -> tuple[Command, str]:
    """Runs for a command that cannot be used here, with the answer as its text."""
    places = " or ".join(_PLACES[audience] for audience in command.where)
    return replace(UNKNOWN, run=_elsewhere), f"{command.called_by[0]} can be used {places}."
