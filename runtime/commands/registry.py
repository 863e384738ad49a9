"""The chat commands of an agent: which exist, who may use them, and which one a message calls."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from nacre.record import Record
from nacre.runtime.commands.contract.command import Command
from nacre.runtime.commands.help import HELP, UNKNOWN, elsewhere, nearest_word
from nacre.runtime.commands.session.chats import ACTIVATION, QUEUE, SEND
from nacre.runtime.commands.session.compact import COMPACT
from nacre.runtime.commands.session.context import CONTEXT
from nacre.runtime.commands.session.fork import FORK
from nacre.runtime.commands.session.label import LABEL
from nacre.runtime.commands.session.new import NEW
from nacre.runtime.commands.session.reset import RESET
from nacre.runtime.commands.session.resume import RESUME
from nacre.runtime.commands.session.rewind import REWIND
from nacre.runtime.commands.status import STATUS
from nacre.runtime.commands.waiting.approvals import APPROVE, DENY
from nacre.runtime.commands.waiting.review import REVIEW
from nacre.runtime.contracts.errors import ConfigError
from nacre.runtime.contracts.inbound import RESET_TRIGGERS, called_word, slash_word
from nacre.runtime.contracts.policy import ChatPolicy

_SESSION = (NEW, RESET, RESUME, COMPACT, REWIND, FORK, LABEL)
BUILT_IN: tuple[Command, ...] = (
    *_SESSION,
    STATUS,
    CONTEXT,
    QUEUE,
    SEND,
    ACTIVATION,
    APPROVE,
    DENY,
    REVIEW,
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
        self._commands = tuple(_with_triggers((*BUILT_IN[:-1], *added, BUILT_IN[-1]), reset_triggers))
        self._by_word: dict[str, Command] = {}
        for command in self._commands:
            for word in _checked_words(command):
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
            stand_in, told = elsewhere(command)
            return Called(command=stand_in, rest=told)
        slip = slash_word(text) if policy.is_owner is True else None
        if slip is None:
            return None
        if slip[1] and not nearest_word(slip[0], self.offered(policy), likeness=_SURE_LIKENESS):
            return None
        return Called(command=UNKNOWN, rest=slip[0])


def _with_triggers(commands: Sequence[Command], triggers: Sequence[str]) -> list[Command]:
    """The commands, with the owner's reset triggers as the words of `/new` and `/reset`."""
    fresh = tuple(word for word in triggers if word != "/reset"), ("/reset",) if "/reset" in triggers else ()
    of_settings = {NEW: fresh[0], RESET: fresh[1]}
    named = [(command, of_settings.get(command)) for command in commands]
    return [replace(command, words=words or ()) for command, words in named if words != ()]


def _checked_words(command: Command) -> tuple[str, ...]:
    if not command.words:
        for name in (command.name, *command.aliases):
            if not _NAME.fullmatch(name):
                raise ConfigError(
                    f"{name!r} cannot name a chat command. Use a small letter, and then at most 31 "
                    "of a-z, 0-9, - and _, without the slash."
                )
    return command.called_by
