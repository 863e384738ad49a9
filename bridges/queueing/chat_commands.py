"""`/queue`, `/send` and `/activation`: what they say, and what holds for a session by them. Pure."""

from __future__ import annotations

import re
from dataclasses import replace

from nacre.bridges.queueing.session_queue import QueueRules
from nacre.record import Record
from nacre.runtime.settings.sections.channels import QUEUE_MODES, DropPolicy, QueueSettings, queue_mode

CHOICES = ("queue", "send", "activation")
"""Chat commands that the gateway itself carries out."""
_DROPS: tuple[DropPolicy, ...] = ("summarize", "old", "new")
_DURATION = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m)?")
_UNITS_SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, None: 0.001}
QUEUE_USAGE = (
    f"Write /queue MODE, one of {', '.join(QUEUE_MODES)}, with debounce:2s, cap:20 or drop:old "
    f"({', '.join(_DROPS)}) behind it; /queue default takes it back."
)
SEND_USAGE = "Write /send on, /send off or /send inherit."
ACTIVATION_USAGE = "Write /activation mention or /activation always."


class ChoiceUnreadable(ValueError):
    """What stands behind a command cannot be read; the text says how it is written."""


class QueueNow(Record):
    """What holds for a session's queue."""

    rules: QueueRules
    drop: DropPolicy


def queue_now(settings: QueueSettings, channel: str, chosen: str, *, first_debounce_ms: int) -> QueueNow:
    """The settings, with what was chosen by `/queue` over them; `chosen` is what `read_queue` gave."""
    now = QueueNow(
        rules=QueueRules(
            mode=queue_mode(settings, channel),
            debounce_seconds=settings.debounce_ms / 1000,
            first_debounce_seconds=first_debounce_ms / 1000,
            cap=settings.cap,
        ),
        drop=settings.drop,
    )
    for word in chosen.split():
        now = _with(now, word)
    return now


def read_queue(text: str) -> str:
    """What stands behind `/queue`, in its plain form; empty takes a choice back.

    Raises:
        ChoiceUnreadable: it is nothing of the kind.
    """
    words = text.lower().split()
    if words in (["default"], ["reset"]):
        return ""
    now = QueueNow(
        rules=QueueRules(mode="collect", debounce_seconds=0, first_debounce_seconds=0, cap=1), drop="old"
    )
    for word in words:
        now = _with(now, word)
    return " ".join("steer" if word == "queue" else word for word in words)


def read_send(text: str) -> str:
    """`on`, `off` or, for `inherit`, nothing. Raises as `read_queue`."""
    word = text.strip().lower()
    if word not in ("on", "off", "inherit"):
        raise ChoiceUnreadable(SEND_USAGE)
    return "" if word == "inherit" else word


def read_activation(text: str) -> str:
    """`mention` or `always`. Raises as `read_queue`."""
    word = text.strip().lower()
    if word not in ("mention", "always"):
        raise ChoiceUnreadable(ACTIVATION_USAGE)
    return word


def _with(now: QueueNow, word: str) -> QueueNow:
    name, _, value = word.partition(":")
    if not value:
        mode = next((mode for mode in QUEUE_MODES if mode == ("steer" if word == "queue" else word)), None)
        if mode is not None:
            return replace(now, rules=replace(now.rules, mode=mode))
    elif name == "debounce" and (match := _DURATION.fullmatch(value)):
        seconds = float(match[1]) * _UNITS_SECONDS[match[2]]
        return replace(now, rules=replace(now.rules, debounce_seconds=seconds))
    elif name == "cap" and value.isdecimal() and 0 < int(value) <= 10_000:
        return replace(now, rules=replace(now.rules, cap=int(value)))
    elif name == "drop" and (drop := next((each for each in _DROPS if each == value), None)):
        return replace(now, drop=drop)
    raise ChoiceUnreadable(f"{word!r} is nothing that /queue knows. {QUEUE_USAGE}")
