"""What holds for a session of a chat now: the settings, and over them what was chosen by commands."""

from __future__ import annotations

from collections.abc import Callable

from nacre.bridges.queueing.chat_commands import (
    ACTIVATION_USAGE,
    ChoiceUnreadable,
    QueueNow,
    queue_now,
    read_activation,
    read_queue,
    read_send,
)
from nacre.bridges.queueing.choices import Choices
from nacre.runtime.ledger.records import Received
from nacre.runtime.settings.settings import Settings


class SessionRules:
    """Those of all sessions; `settings` are asked anew each time."""

    def __init__(self, choices: Choices, settings: Callable[[], Settings]) -> None:
        self._choices = choices
        self._settings = settings

    def queue(self, received: Received) -> QueueNow:
        """How messages of a session wait."""
        messages = self._settings().messages
        chosen = self._choices.get(received.session_key, "queue")
        return queue_now(
            messages.queue,
            received.inbound.channel,
            chosen,
            first_debounce_ms=messages.inbound.debounce_ms,
        )

    def may_answer(self, received: Received) -> bool:
        """Whether words of a session are answered at all."""
        key, inbound = received.session_key, received.inbound
        chosen = self._choices.get(key, "send")
        policy = self._settings().session.send_policy
        allowed = policy.allows(key, channel=inbound.channel, chat_kind=inbound.chat_kind)
        return chosen == "on" or (chosen != "off" and allowed)

    def activation(self, session_key: str) -> str:
        """What was chosen for a group: `mention`, `always`, or nothing."""
        return self._choices.get(session_key, "activation")

    def line(self, received: Received, *, is_running: bool, depth: int) -> str:
        """What `/status` says of a session's queue."""
        now = self.queue(received)
        send = "" if self.may_answer(received) else " · sending is off"
        running = "a turn runs" if is_running else "idle"
        return f"🪢 Queue: {now.rules.mode} ({running}, {depth} waiting){send}"

    async def choose(self, received: Received, command: str, rest: str) -> str:
        """Carries out `/queue`, `/send` or `/activation`; what is answered."""
        try:
            match command:
                case "queue":
                    return await self._queue(received, rest)
                case "send":
                    return await self._send(received, rest)
            return await self._activation(received.session_key, rest)
        except ChoiceUnreadable as error:
            return str(error)

    async def _queue(self, received: Received, rest: str) -> str:
        if rest.strip():
            await self._choices.put(received.session_key, "queue", read_queue(rest))
        now = self.queue(received)
        return (
            f"⚙️ Queue: {now.rules.mode} · debounce {now.rules.debounce_seconds:.15g} s · "
            f"cap {now.rules.cap} · drop {now.drop}"
        )

    async def _send(self, received: Received, rest: str) -> str:
        if rest.strip():
            await self._choices.put(received.session_key, "send", read_send(rest))
        return f"⚙️ Sending in this session: {'on' if self.may_answer(received) else 'off'}"

    async def _activation(self, key: str, rest: str) -> str:
        if rest.strip():
            await self._choices.put(key, "activation", read_activation(rest))
        chosen = self.activation(key)
        return f"⚙️ Activation: {chosen}" if chosen else f"⚙️ As the settings say. {ACTIVATION_USAGE}"
