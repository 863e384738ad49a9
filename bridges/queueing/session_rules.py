"""The rules of a chat's session: the settings, overridden by `/queue`, `/send` and `/activation`."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from typing import Literal, TypeAlias

from nacre.record import Record
from nacre.runtime.contracts.inbound import Inbound
from nacre.runtime.ledger.records import Received
from nacre.runtime.ledger.tables import LedgerTables
from nacre.runtime.settings.sections.channels import (
    QUEUE_MODES,
    DropPolicy,
    QueueMode,
    QueueSettings,
    queue_mode,
)
from nacre.runtime.settings.settings import Settings

ChoiceName: TypeAlias = Literal["queue", "send", "activation"]
CHOICE_COMMANDS = ("queue", "send", "activation")
"""Chat commands that the gateway itself executes."""
IMMEDIATE_COMMANDS = ("status", "approve", "deny")
"""Chat commands that do not wait while a turn of their session runs."""
QUEUE_USAGE = (
    f"Write /queue MODE, where MODE is one of {', '.join(QUEUE_MODES)}. You can add debounce:2s, cap:20 and "
    "drop:old (or summarize, new). /queue default restores the settings."
)
SEND_USAGE = "Write /send on, /send off or /send inherit."
ACTIVATION_USAGE = "Write /activation mention or /activation always."
_DROPS: tuple[DropPolicy, ...] = ("summarize", "old", "new")
_DURATION = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m)?")
_UNITS_SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, None: 0.001}
_STOP_WORDS = ("stop", "esc", "abort", "wait", "exit", "interrupt")


class InvalidChoice(ValueError):
    """The arguments of a command are invalid. The text says how to write them."""


class QueueRules(Record):
    """The rules for a session's queue.

    An idle session waits `first_debounce_seconds` for more messages before it answers. `drop` says what
    happens to messages above `cap`.
    """

    mode: QueueMode
    debounce_seconds: float
    first_debounce_seconds: float
    cap: int
    drop: DropPolicy


def queue_rules(settings: QueueSettings, channel: str, chosen: str, *, first_debounce_ms: int) -> QueueRules:
    """The settings, overridden by `chosen`, which `parse_queue` returned."""
    rules = QueueRules(
        mode=queue_mode(settings, channel),
        debounce_seconds=settings.debounce_ms / 1000,
        first_debounce_seconds=first_debounce_ms / 1000,
        cap=settings.cap,
        drop=settings.drop,
    )
    for word in chosen.split():
        rules = _override(rules, word)
    return rules


def parse_queue(text: str) -> str:
    """The normalized arguments of `/queue`; empty for a return to the settings.

    Raises:
        InvalidChoice: they are invalid.
    """
    words = text.lower().split()
    if words in (["default"], ["reset"]):
        return ""
    rules = QueueRules(mode="collect", debounce_seconds=0, first_debounce_seconds=0, cap=1, drop="old")
    for word in words:
        rules = _override(rules, word)
    return " ".join("steer" if word == "queue" else word for word in words)


def is_stop(text: str, *, is_busy: bool) -> bool:
    """Whether a message is just `/stop` or, while its session is busy, a word such as `abort`."""
    word = text.strip().lower().rstrip(".!")
    return word == "/stop" or (is_busy and word in _STOP_WORDS)


def may_stop(inbound: Inbound) -> bool:
    """Whether the sender may stop a turn: the owner anywhere, others in their own direct chat."""
    return inbound.is_owner is True or inbound.chat_kind == "direct"


class Choices:
    """The choices of sessions that commands made, kept in memory and in the ledger."""

    def __init__(self, tables: LedgerTables) -> None:
        self._tables = tables
        self._known: dict[tuple[str, str], str] = {}

    async def load(self) -> None:
        """Reads the choices of all sessions, which another program may have changed."""
        self._known = dict(await self._tables.choices())

    def get(self, session_key: str, name: ChoiceName) -> str:
        """A session's choice; empty if there is none."""
        return self._known.get((session_key, name), "")

    async def put(self, session_key: str, name: ChoiceName, value: str) -> None:
        """Stores a choice, or removes it if `value` is empty. It is on disk when this returns."""
        await self._tables.put_choice(session_key, name, value)
        if value:
            self._known[session_key, name] = value
        else:
            self._known.pop((session_key, name), None)


class SessionRules:
    """The rules of all sessions. `settings` is called each time, so that changes apply at once."""

    def __init__(self, choices: Choices, settings: Callable[[], Settings]) -> None:
        self._choices = choices
        self._settings = settings

    def queue(self, received: Received) -> QueueRules:
        """The rules for the queue of a message's session."""
        messages = self._settings().messages
        return queue_rules(
            messages.queue,
            received.inbound.channel,
            self._choices.get(received.session_key, "queue"),
            first_debounce_ms=messages.inbound.debounce_ms,
        )

    def may_answer(self, received: Received) -> bool:
        """Whether messages of a session are answered at all. Commands always are."""
        key, inbound = received.session_key, received.inbound
        chosen = self._choices.get(key, "send")
        policy = self._settings().session.send_policy
        allowed = policy.allows(key, channel=inbound.channel, chat_kind=inbound.chat_kind)
        return chosen == "on" or (chosen != "off" and allowed)

    def activation(self, session_key: str) -> str:
        """The choice for a group: `mention`, `always`, or empty."""
        return self._choices.get(session_key, "activation")

    def status_line(self, received: Received, *, is_running: bool, depth: int) -> str:
        """The line of `/status` about a session's queue."""
        send = "" if self.may_answer(received) else " · sending is off"
        running = "a turn runs" if is_running else "idle"
        return f"🪢 Queue: {self.queue(received).mode} ({running}, {depth} waiting){send}"

    async def run_command(self, received: Received, command: str, arguments: str) -> str:
        """Executes `/queue`, `/send` or `/activation` and returns the answer."""
        key, word = received.session_key, arguments.strip().lower()
        try:
            match command:
                case "queue":
                    if word:
                        await self._choices.put(key, "queue", parse_queue(word))
                    rules = self.queue(received)
                    return (
                        f"⚙️ Queue: {rules.mode} · debounce {rules.debounce_seconds:.15g} s · "
                        f"cap {rules.cap} · drop {rules.drop}"
                    )
                case "send":
                    if word and word not in ("on", "off", "inherit"):
                        raise InvalidChoice(SEND_USAGE)
                    if word:
                        await self._choices.put(key, "send", "" if word == "inherit" else word)
                    return f"⚙️ Sending in this session: {'on' if self.may_answer(received) else 'off'}"
            if word and word not in ("mention", "always"):
                raise InvalidChoice(ACTIVATION_USAGE)
            if word:
                await self._choices.put(key, "activation", word)
            chosen = self.activation(key)
            return f"⚙️ Activation: {chosen}" if chosen else f"⚙️ As the settings say. {ACTIVATION_USAGE}"
        except InvalidChoice as error:
            return str(error)


def _override(rules: QueueRules, word: str) -> QueueRules:
    name, _, value = word.partition(":")
    if not value:
        mode = next((mode for mode in QUEUE_MODES if mode == ("steer" if word == "queue" else word)), None)
        if mode is not None:
            return replace(rules, mode=mode)
    elif name == "debounce" and (match := _DURATION.fullmatch(value)):
        return replace(rules, debounce_seconds=float(match[1]) * _UNITS_SECONDS[match[2]])
    elif name == "cap" and value.isdecimal() and 0 < int(value) <= 10_000:
        return replace(rules, cap=int(value))
    elif name == "drop" and (drop := next((each for each in _DROPS if each == value), None)):
        return replace(rules, drop=drop)
    raise InvalidChoice(f"/queue does not understand {word!r}. {QUEUE_USAGE}")
