"""Which messages are answered together, and what a model reads of them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from nacre.bridges.queueing.batches import combined, next_batch
from nacre.bridges.queueing.session_rules import is_stop, may_stop
from nacre.runtime.contracts.inbound import Attachment, Inbound
from nacre.runtime.ledger.records import Received
from nacre.runtime.settings.sections.channels import QueueMode, QueueSettings, queue_mode


def _waits(number: int, text: str = "", **more: object) -> Received:
    fields = {"text": text or f"say {number}", "chat_kind": "group", "sender_id": "ann", **more}
    was_begun, turn = bool(fields.pop("was_begun", False)), int(str(fields.pop("turn", 0)))
    inbound = Inbound(message_id=str(number), **fields)  # type: ignore[arg-type]
    return Received(number=number, session_key="k", inbound=inbound, was_begun=was_begun, turn=turn)


def _numbers(waiting: list[Received], mode: QueueMode = "collect", cap: int = 20) -> list[int]:
    batch = next_batch(
        waiting, mode, cap=cap, is_alone=lambda received: received.inbound.text.startswith("/")
    )
    return [received.number for received in batch]


def test_a_persons_messages_go_together() -> None:
    """Up to the first of somebody else, of another place, or a command; one by one in the other modes."""
    mine = [_waits(1), _waits(2)]
    assert _numbers([*mine, _waits(3)]) == [1, 2, 3]
    assert _numbers([*mine, _waits(3, sender_id="bob"), _waits(4)]) == [1, 2]
    assert _numbers([*mine, _waits(3, thread_id="t")]) == [1, 2]
    assert _numbers([*mine, _waits(3, is_owner=True)]) == [1, 2]
    assert _numbers([*mine, _waits(3, "/new"), _waits(4)]) == [1, 2]
    assert _numbers([_waits(1, "/new"), _waits(2)]) == [1]
    assert _numbers([*mine], "followup") == [1]
    assert _numbers([*mine], "interrupt") == [1]


def test_a_turn_that_was_begun_stays_as_it_was() -> None:
    """Neither more nor less goes into it than before the program ended."""
    begun = [_waits(1, was_begun=True, turn=1), _waits(2, was_begun=True, turn=1)]
    assert _numbers([*begun, _waits(3)], "followup") == [1, 2]
    assert _numbers([_waits(0), *begun]) == [0]
    assert _numbers([*begun, _waits(3, was_begun=True, turn=3)]) == [1, 2]


def test_what_a_model_reads_of_several() -> None:
    """A title, then each message with its number; files are those of all."""
    file = Attachment(name="a.png", mime_type="image/png", data=b"1")
    inbound = combined([_waits(1, attachments=(file,)), _waits(2, is_mentioned=True)], cap=20)
    assert inbound.text == (
        "[Queued messages while agent was busy]\n\n---\nQueued #1\nsay 1\n\n---\nQueued #2\nsay 2"
    )
    assert inbound.attachments == (file,)
    assert inbound.is_mentioned
    assert inbound.message_id == "2"
    assert combined([_waits(1)], cap=20).text == "say 1"
    wordless = replace(_waits(3), inbound=Inbound(text="", chat_kind="group", attachments=(file,)))
    assert combined([_waits(1), wordless], cap=20).text.endswith("Queued #2\n(files or forwarded text)")


@pytest.mark.covers("A16-2")
def test_of_too_many_the_oldest_are_lines() -> None:
    """Every message is at least named, and the newest are whole."""
    waiting = [_waits(1, "x" * 400), *(_waits(number) for number in range(2, 6))]
    collected = combined(waiting, cap=3)
    assert collected.text.startswith("[Queued messages while agent was busy]\n\n[Queue overflow] Dropped 2 ")
    assert f"- {'x' * 159}…\n- say 2\n" in collected.text
    assert collected.text.endswith("Queued #3\nsay 5")
    assert _numbers(waiting, "followup", 3) == [1, 2, 3]
    one = combined(waiting[:3], cap=1)
    assert one.text.startswith("[Queue overflow] Dropped 2 message(s) due to cap.\nSummary:\n- x")
    assert one.text.endswith("\n\nsay 3")


@pytest.mark.parametrize("text", ["/stop", "STOP", " esc ", "abort!", "wait", "exit", "Interrupt."])
@pytest.mark.covers("A15-4")
def test_words_that_stop(text: str) -> None:
    """As a whole message, in any case; in an idle session only the command does."""
    assert is_stop(text, is_busy=True)
    assert not is_stop(f"{text} the music", is_busy=True)
    assert is_stop(text, is_busy=False) == text.startswith("/")


def test_who_may_stop() -> None:
    """The owner anywhere, others in their own chat."""
    assert may_stop(Inbound(text="", chat_kind="group", is_owner=True))
    assert may_stop(Inbound(text="", chat_kind="direct"))
    assert not may_stop(Inbound(text="", chat_kind="group"))


def test_the_mode_of_a_channel() -> None:
    """By its name in any case."""
    settings = QueueSettings.model_validate({"byChannel": {"Line": "interrupt", "irc": "steer"}})
    assert queue_mode(settings, "line") == "interrupt"
    assert queue_mode(settings, "irc") == "steer"
    assert queue_mode(settings, "matrix") == "collect"
