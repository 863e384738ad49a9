"""The events of a turn on their way from a worker to its gateway: in order and whole, or given up."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings as limits, strategies as some

from nacre.extensions.postgres.workers.stored_events import TORN, events_of, outcome_of
from nacre.extensions.postgres.workers.streams import (
    CONTINUED,
    HeardStream,
    Sender,
    SentStream,
    parse_payload,
)
from nacre.extensions.postgres.workers.turn_rows import TakenTurn, TurnRows
from nacre.runtime.contracts.errors import RateLimited, TurnBroken
from nacre.runtime.contracts.events import (
    AnswerDiscarded,
    Event,
    ReplyReady,
    TextStreamed,
    ToolEnded,
    ToolStarted,
    TurnFailed,
)
from nacre.runtime.contracts.inbound import Inbound, Reply
from nacre.sessions.contracts.messages import Usage
from tests.bridges.line_channel import LineServer
from tests.extensions.postgres.workers.served import gateway, settings
from tests.extensions.postgres.workers.worker_process import started
from tests.runtime.agents import write_settings
from tests.servers import provider_wire as wire
from tests.servers.provider_server import ProviderServer

LOOKING = "I look into the notes before I answer that."
TURN = TakenTurn(
    agent_id="müller",
    id="line/default/c/1 ab",
    session_key="k",
    inbound=Inbound(text="hello", chat_kind="direct"),
    fence=1,
    tries=1,
    stream="nacre_x",
)
REPLY = ReplyReady(
    reply=Reply(text="whole", session_key="k", session_id="s", notice="told", usage=Usage(input_tokens=3))
)


def sent(*events: Event, fence: int = 1) -> list[str]:
    """The payloads of a worker that sends after each event."""
    stream, payloads = SentStream(TakenTurn(**{**vars(TURN), "fence": fence})), []
    for event in events:
        stream.events.append(event)
        payloads += stream.take()
    return payloads


def read(payloads: Iterable[str], stream: HeardStream | None = None) -> list[Event]:
    """What a gateway makes of payloads."""
    stream, events = stream or HeardStream(), []
    for payload in payloads:
        piece = parse_payload(payload)
        assert piece is not None
        assert piece[0] == TURN.key
        events += stream.read(*piece[1:])
    return events


@limits(max_examples=30)
@given(some.lists(some.text(max_size=3_000), max_size=8))
def test_every_text_arrives(texts: list[str]) -> None:
    """In payloads that PostgreSQL takes, whatever they say; also a tool's long arguments, and each once."""
    arguments = {"text": "".join(texts) * 3}
    events = [TextStreamed(text=text) for text in texts]
    events.insert(len(texts) // 2, ToolStarted(call_id="1", tool_name="write", arguments=arguments))
    payloads = sent(*events)

    assert all(len(payload.encode()) < 8_000 for payload in payloads)
    assert read(each for payload in payloads for each in (payload, payload)) == events


def test_texts_are_sent_together() -> None:
    """Of one moment; a tool's error stays where it is, and its result is cut."""
    stream = SentStream(TURN)
    ended = ToolEnded(
        call_id="1", tool_name="read", is_error=True, summary="no", result="x" * 50_000, error=OSError("no")
    )
    for event in (TextStreamed(text="a"), TextStreamed(text="b"), ended):
        stream.events.append(event)
    events = read(stream.take())

    assert events == [TextStreamed(text="ab"), ended]
    assert isinstance(events[1], ToolEnded)
    assert len(events[1].result) == 20_000
    assert [*stream.take()] == []


def test_after_a_gap_the_answer_is_told_whole() -> None:
    """Nothing behind the gap is shown; the outcome has what is missing, also if only the end is."""
    payloads = sent(*(TextStreamed(text=text) for text in "abc"))
    outcome = outcome_of(REPLY, sent_chars=sum(len(each.split("\n", 1)[1]) for each in payloads))

    for lost, shown in ((1, ["a"]), (2, ["a", "b"])):
        stream = HeardStream()
        events = read(payloads[:lost] + payloads[lost + 1 :], stream)
        assert events == [TextStreamed(text=text) for text in shown]
        assert events_of(outcome, heard_chars=stream.heard_chars) == [
            AnswerDiscarded(problem=TORN),
            TextStreamed(text="whole"),
            REPLY,
        ]
    stream = HeardStream()
    read(payloads, stream)
    assert events_of(outcome, heard_chars=stream.heard_chars) == [REPLY]
    assert events_of(outcome, heard_chars=0) == [REPLY], "who heard nothing shows the answer anyway"


def test_another_worker_begins_anew() -> None:
    """What the first one said is void, and what it still says is not heard."""
    first, second = sent(*map(_text, "ab")), sent(*map(_text, "cd"), fence=2)

    assert read([first[0], second[0], first[1], second[1]]) == [
        _text("a"),
        AnswerDiscarded(problem=CONTINUED),
        _text("c"),
        _text("d"),
    ]


def _text(text: str) -> TextStreamed:
    return TextStreamed(text=text)


def test_an_event_of_another_version_is_skipped() -> None:
    """Its kind or a field is not known here; other payloads of the connection are no events."""
    [payload] = sent(_text("a"))
    head, _, line = payload.partition("\n")
    odd = line.replace("TextStreamed", "Sung") + line.replace('"text"', '"tune"') + line

    assert read([f"{head}\n{odd}"]) == [_text("a")]
    assert parse_payload("ended") is None


def test_an_error_keeps_its_kind() -> None:
    """Where a client is told differently; others are an error of the turn."""
    for error, kind in ((RateLimited("slow down"), RateLimited), (OSError("disk"), TurnBroken)):
        [event] = events_of(outcome_of(TurnFailed(error=error)))  # type: ignore[arg-type]
        assert isinstance(event, TurnFailed)
        assert (type(event.error), str(event.error)) == (kind, str(error))


@pytest.mark.postgres
async def test_a_draft_grows_while_a_worker_answers(tmp_path: Path, database_url: str) -> None:
    """The chat shows what the worker has said before its tool runs; the answer replaces it, once."""
    shown = threading.Event()
    calls = iter([wire.tool_calls(("read", {"path": "MEMORY.md"}), text=LOOKING)])

    def answer(_request: Mapping[str, Any]) -> wire.Step:
        if (call := next(calls, None)) is not None:
            return call
        shown.wait(60)
        return wire.reply("There is nothing.")

    with LineServer() as server, ProviderServer(responder=answer) as provider:
        write_settings(tmp_path, settings(provider, 1))
        worker = started(tmp_path, database_url)
        try:
            async with gateway(tmp_path, database_url, server.port, hears=True):
                server.say("what do I know?", chat="n", sender="nora")
                await server.until(lambda server: server.shown("n") == [LOOKING])
                shown.set()
                await server.until(lambda server: server.shown("n") == ["There is nothing."])
        finally:
            shown.set()
            worker.kill()
            worker.join()
    assert [each.text for each in server.sent] == ["There is nothing."]


class _Told(TurnRows):
    """Counts what it is to send, instead of sending it."""

    def __init__(self) -> None:
        self.sent: list[int] = []
        self.changed = asyncio.Event()

    async def notify(self, payloads: Sequence[tuple[str, str]]) -> None:
        self.sent.append(len(payloads))
        self.changed.set()


async def test_all_turns_of_a_worker_are_sent_together() -> None:
    """A turn that begins to speak is sent at once, what follows in one statement each tenth of a second."""
    rows = _Told()
    sender = Sender(rows)
    sending = asyncio.create_task(sender.run())
    streams = [SentStream(TURN) for _ in range(8)]
    for number in range(3):
        rows.changed.clear()
        for stream in streams:
            sender.put(stream, _text("word"))
            sender.put(stream, REPLY)  # is told by the outcome
            if number:
                await asyncio.sleep(0)  # the sender could send, and waits
        await rows.changed.wait()
    last = streams[0]
    sender.put(last, _text("end"))
    [rest] = await sender.rest(last)
    sending.cancel()

    assert rows.sent == [8, 8, 8]
    assert rest.endswith('\n["TextStreamed", {"text": "end"}]\n')
