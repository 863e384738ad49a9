"""The chat commands of an agent: who may use them, which one a message calls, and `/help`."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from difflib import get_close_matches
from types import MappingProxyType
from typing import get_args

from nacre.record import Record
from nacre.runtime.commands.command import Command, CommandRun, HelpGroup, Outcome
from nacre.runtime.commands.memory_commands import FORGET, REMEMBER, REVIEW, SEARCH, UNDO
from nacre.runtime.commands.session_commands import (
    ACTIVATION,
    APPROVE,
    COMPACT,
    CONTEXT,
    DENY,
    FORK,
    LABEL,
    MODEL,
    NEW,
    QUEUE,
    RESET,
    RESUME,
    REWIND,
    SEND,
)
from nacre.runtime.commands.status import STATUS, USAGE
from nacre.runtime.contracts.errors import ConfigError
from nacre.runtime.contracts.inbound import RESET_TRIGGERS, called_word, slash_word
from nacre.runtime.contracts.policy import ChatPolicy

LEAST_LIKENESS = 0.7
"""The least similarity of a misspelled word: `difflib`'s ratio, where 1 is identical."""

_PLACES = {"private": "in a private chat", "direct": "in a chat with somebody else", "group": "in a group"}


async def _help(run: CommandRun) -> Outcome:
    return run.reply(help_text(run.offered))


def help_text(commands: Sequence[Command], more: Mapping[str, str] = MappingProxyType({})) -> str:
    """The commands by topic, one line each. `more` are further words with their texts."""
    groups: dict[str, list[tuple[str, str]]] = {group: [] for group in get_args(HelpGroup)}
    for command in commands:
        groups[command.group].append((command.usage, command.help))
    groups["More"] += more.items()
    width = max((len(usage) for rows in groups.values() for usage, _ in rows), default=0)
    filled = {group: rows for group, rows in groups.items() if rows}
    has_headings, lines = len(filled) > 1, list[str]()
    for group, rows in filled.items():
        lines += [f"{group}:"] if has_headings else []
        lines += [f"{'  ' * has_headings}{usage.ljust(width)}  {text}" for usage, text in rows]
    return "\n".join([*lines, "Any other text goes to the assistant."])


def nearest_word(word: str, commands: Sequence[Command], *, likeness: float = LEAST_LIKENESS) -> str:
    """The command word that `word` probably misspells, or an empty string."""
    words = {called.removeprefix("/"): called for command in commands for called in command.called_by}
    found = get_close_matches(word.lower().removeprefix("/"), words, n=1, cutoff=likeness)
    return words[found[0]] if found else ""


async def _unknown(run: CommandRun) -> Outcome:
    if run.rest == "/start":  # Telegram's button for a new chat sends it
        return await _help(run)
    nearest = nearest_word(run.rest, run.offered)
    meant = f" Did you mean {nearest}?" if nearest else ""
    return run.reply(f"There is no command {run.rest}.{meant} /help lists the commands.")


async def _elsewhere(run: CommandRun) -> Outcome:
    return run.reply(f"{run.rest} /help lists what can be used here.")


HELP = Command(name="help", help="this list", who="anyone", run=_help)
UNKNOWN = Command(name="unknown", help="", who="anyone", run=_unknown)
"""Runs for an unknown command, with the word as its text."""


BUILT_IN: tuple[Command, ...] = (
    *(NEW, RESET, RESUME, REWIND, FORK, LABEL, COMPACT, MODEL),
    *(SEARCH, REMEMBER, FORGET, UNDO, REVIEW),
    *(STATUS, CONTEXT, USAGE, APPROVE, DENY, QUEUE, SEND, ACTIVATION),
    HELP,
)
"""Nacre's own commands, in the order of `/help`."""

_NAME = re.compile(r"[a-z][a-z0-9_-]{0,31}")
_SURE_LIKENESS = 0.8
"""With more text after it, a less similar word is not treated as a misspelled command."""


class Called(Record):
    """A command that a message calls, and the text after its name."""

    command: Command
    rest: str


class Commands:
    """The commands of one agent, its own and added ones, in the order of `/help`."""

    def __init__(
        self, added: Sequence[Command] = (), *, reset_triggers: Sequence[str] = RESET_TRIGGERS
    ) -> None:
        """`reset_triggers` are the lower-case words that start a new session.

        Raises:
            ConfigError: a name is malformed, or two commands have the same word.
        """
        self._added, self._reset_triggers = tuple(added), reset_triggers
        # The owner's reset triggers are the words of `/new` and `/reset`.
        fresh = tuple(word for word in reset_triggers if word != "/reset")
        triggers = {NEW: fresh, RESET: ("/reset",) if "/reset" in reset_triggers else ()}
        named = [(each, triggers.get(each)) for each in (*BUILT_IN[:-1], *added, BUILT_IN[-1])]
        self._commands = tuple(replace(each, words=words or ()) for each, words in named if words != ())
        self._by_word: dict[str, Command] = {}
        for command in self._commands:
            for name in () if command.words else (command.name, *command.aliases):
                if not _NAME.fullmatch(name):
                    raise ConfigError(
                        f"{name!r} cannot name a chat command. Use a small letter, and then at most 31 "
                        "of a-z, 0-9, - and _, without the slash."
                    )
            for word in command.called_by:
                if word in self._by_word:
                    raise ConfigError(
                        f"There are two chat commands {word!r}. Give yours another name: "
                        "@nacre.command('another-name', …)."
                    )
                self._by_word[word] = command

    def and_also(self, added: Sequence[Command]) -> Commands:
        """Returns these commands and additional ones.

        Raises:
            ConfigError: a name is malformed, or two commands have the same word.
        """
        return Commands((*self._added, *added), reset_triggers=self._reset_triggers)

    def offered(self, policy: ChatPolicy) -> tuple[Command, ...]:
        """The commands that may be used in such a chat; empty if that is only `/help`."""
        found = tuple(command for command in self._commands if command.may_be_used(policy))
        return () if found == (HELP,) else found

    def is_message(self, text: str) -> bool:
        """Whether a text calls no command, regardless of its sender."""
        return called_word(text, self._by_word) is None and slash_word(text) is None

    def called(self, text: str, policy: ChatPolicy) -> Called | None:
        """The command that a message calls, or `None` for a message to the assistant.

        For the owner, a single unknown word after a slash counts as misspelled, and so does one before more
        text if it is very similar to a command. A command that others may not use is a message to the
        assistant.
        """
        found = called_word(text, self._by_word)
        if found is not None:
            word, rest = found
            command = self._by_word[word]
            if command in self.offered(policy):
                return Called(command=command, rest=rest)
            if policy.is_owner is not True:
                return None
            places = " or ".join(_PLACES[audience] for audience in command.where)
            answer = f"{command.called_by[0]} can be used {places}."
            return Called(command=replace(UNKNOWN, run=_elsewhere), rest=answer)
        slip = slash_word(text) if policy.is_owner is True else None
        if slip is None:
            return None
        if slip[1] and not nearest_word(slip[0], self.offered(policy), likeness=_SURE_LIKENESS):
            return None
        return Called(command=UNKNOWN, rest=slip[0])
