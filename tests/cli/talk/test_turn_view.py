"""What the owner sees of a turn in a terminal."""

from __future__ import annotations

import io

import pytest

from nacre.cli.screen.screen import Screen, screen_on
from nacre.cli.talk.conversation import TurnView
from nacre.runtime.contracts.errors import ModelAuthError, TurnCancelled
from nacre.runtime.contracts.events import (
    AnswerDiscarded,
    CompactionEnded,
    Event,
    FallbackAnswered,
    FlushEnded,
    ModelRetried,
    ModelSlow,
    ReplyReady,
    SessionReset,
    Silence,
    TextStreamed,
    ToolEnded,
    ToolStarted,
    TurnFailed,
    Warned,
)
from nacre.runtime.contracts.inbound import Reply

SILENCE = Silence(session_key="agent:main:main", session_id="s")

KEY = "sk-proj-abcdEFGH1234567890abcd"
"""Somebody wrote a key where the name of a model belongs."""


def reply(text: str, *, is_command: bool = False) -> ReplyReady:
    return ReplyReady(
        reply=Reply(text=text, session_key="agent:main:main", session_id="s", is_command=is_command)
    )


def started(call_id: str, **arguments: object) -> ToolStarted:
    return ToolStarted(call_id=call_id, tool_name="memory_search", arguments=arguments)


def ended(call_id: str, summary: str, *, is_error: bool = False) -> ToolEnded:
    return ToolEnded(call_id=call_id, tool_name="memory_search", is_error=is_error, summary=summary)


def raw(*events: Event, is_live: bool = False, is_colored: bool = False) -> str:
    """The bytes that a turn of these events sends."""
    stream = io.StringIO()
    view = TurnView(Screen(stream, is_live=is_live, is_colored=is_colored), lambda: 0.0)
    for event in events:
        view.show(event)
    view.close()
    return stream.getvalue()


@pytest.mark.covers("A17-4")
def test_streamed_text_is_shown_once() -> None:
    """The answer appears as it comes; its end does not print it again."""
    shown = raw(
        TextStreamed(text="\n\nYour boat"),
        TextStreamed(text=" is Halcyon.\n"),
        reply("Your boat is Halcyon."),
    )
    assert shown == "Your boat is Halcyon.\n"


@pytest.mark.covers("A17-4")
def test_words_before_a_tool_stand_on_their_own_line() -> None:
    """Text, the tool's one line, and the rest of the answer follow each other in order."""
    shown = raw(
        TextStreamed(text="Let me look.\n\n"),
        started("1", query="boat"),
        ended("1", "3 passages for 'boat'"),
        TextStreamed(text="Halcyon."),
        reply("Halcyon."),
    )
    assert shown == "Let me look.\n· memory_search: 3 passages for 'boat'\nHalcyon.\n"


def test_a_command_answers_without_a_stream() -> None:
    """What no stream carried is printed when the turn ends."""
    assert raw(reply("🧠 Model: x", is_command=True)) == "🧠 Model: x\n"


def test_a_running_tool_is_one_line_that_goes_away() -> None:
    """On a live screen the tools at work share a dim line, which the finished line replaces."""
    shown = raw(
        started("1", query="boat\x1b[31m"),
        started("2", query="船"),
        ended("2", "none"),
        SILENCE,
        is_live=True,
    )
    assert '· memory_search "boat␛[31m", memory_search "船" …\r\x1b[K· memory_search "船": none\n' in shown
    assert shown.endswith("\r\x1b[K· (nothing to say)\n")
    assert shown.count("\n") == 2


@pytest.mark.parametrize(
    ("event", "line"),
    [
        (FlushEnded(status="written", path="memory/2026-11-20.md"), "· saved notes to memory/2026-11-20.md"),
        (
            FlushEnded(status="written", path="memory/a.md", notes="## 14:02\n- one\n  - of it\n- two\n"),
            "· saved 2 notes to memory/a.md",
        ),
        (
            FlushEnded(status="written", path="memory/a.md", notes="- The key is [redacted]\n- Tea\n"),
            "· saved 2 notes to memory/a.md; a key or password in them became [redacted]",
        ),
        (FlushEnded(status="nothing", path=""), "· nothing new to note down"),
        (
            SessionReset(reason="daily", session_id="b", previous_session_id="a"),
            "· a new day, a fresh session; /resume goes back to the one before",
        ),
        (
            SessionReset(reason="idle", session_id="b", previous_session_id="a"),
            "· after a long silence, a fresh session; /resume goes back to the one before",
        ),
        (
            FlushEnded(status="fallback", path="memory/a.md", problem="No key."),
            "· an extract was saved to memory/a.md, without the model: No key.",
        ),
        (
            FlushEnded(status="failed", path="", problem="Disk full."),
            "· notes could not be saved: Disk full.",
        ),
        (
            CompactionEnded(
                reason="threshold", tokens_before=31_200, tokens_after=9_800, transcript="7.jsonl"
            ),
            "· history compacted 31.2k → 9.8k tokens, every word stays in 7.jsonl",
        ),
        (
            CompactionEnded(
                reason="overflow", tokens_before=9, tokens_after=9, transcript="7.jsonl", problem="Too short."
            ),
            "· history was not compacted: Too short.",
        ),
        (AnswerDiscarded(problem="Line broke."), "· the answer broke off and starts again: Line broke."),
        (
            FallbackAnswered(model_name="b/two", first_model_name="a/one", problem="Busy."),
            "· answered by b/two: Busy.",
        ),
        (
            ModelSlow(
                model_name=f"a/{KEY}", silent_seconds=15.0, has_begun=False, next_model_name=f"b/{KEY}"
            ),
            "· a/[redacted] is slow: it has sent nothing for 15 s. Ctrl-C stops the turn; else b/[redacted] "
            "is asked in a while.",
        ),
        (
            FallbackAnswered(model_name=f"b/{KEY}", first_model_name="a/one", problem="Busy."),
            "· answered by b/[redacted]: Busy.",
        ),
        (ModelRetried(attempt=1, delay_seconds=2.0, problem="Busy."), "· Busy. Attempt 2 in 2 s."),
        (
            ModelSlow(model_name="a/one", silent_seconds=15.0, has_begun=False, next_model_name="b/two"),
            "· a/one is slow: it has sent nothing for 15 s. Ctrl-C stops the turn; else b/two is asked in a "
            "while.",
        ),
        (
            ModelSlow(model_name="a/one", silent_seconds=2.5, has_begun=True),
            "· a/one has begun and then sent nothing for 2.5 s. Ctrl-C stops the turn.",
        ),
        (Warned(message="A file is\nbroken."), "· A file is broken."),
        (ended("1", "no such file", is_error=True), "· memory_search failed: no such file"),
    ],
)
@pytest.mark.covers("A11-11", "A17-5")
def test_each_event_is_one_line(event: Event, line: str) -> None:
    """Notes, compactions, retries, warnings and failed tools say in one line what happened."""
    assert raw(event) == f"{line}\n"


def test_what_the_owner_asked_for_is_said_once() -> None:
    """The reply to /compact tells how it went; the event adds no second line."""
    done = CompactionEnded(reason="manual", tokens_before=31_200, tokens_after=9_800, transcript="7.jsonl")
    assert raw(done, reply("⚙️ Compacted", is_command=True)) == "⚙️ Compacted\n"


def test_a_failure_is_a_sentence_in_red() -> None:
    """An error is said in its own words, in red, without a trace."""
    shown = raw(TurnFailed(error=ModelAuthError("The key was refused. Set OPENAI_API_KEY.")), is_colored=True)
    assert shown == "\x1b[31mThe key was refused. Set OPENAI_API_KEY.\x1b[0m\n"


def test_a_stopped_answer_keeps_what_was_said() -> None:
    """After Ctrl-C the half answer stays, and a line says that it was stopped."""
    shown = raw(TextStreamed(text="One two"), TurnFailed(error=TurnCancelled("stopped")))
    assert shown == "One two\n· stopped\n"


def test_a_note_cannot_drive_the_terminal() -> None:
    """Escape sequences from a model or a tool come out as text, also when the stream splits them."""
    shown = raw(
        TextStreamed(text="hi \x1b"),
        TextStreamed(text="]52;c;aGk=\x07"),
        ended("1", "x\x1b[2J\x9b2J"),
        SILENCE,
        is_live=True,
    )
    assert "\x1b]" not in shown
    assert "\x1b[2J" not in shown
    assert "\x9b" not in shown
    assert "hi ␛]52;c;aGk=␇" in shown


class Terminal(io.StringIO):
    """A stream that says that it is a terminal."""

    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
    ("environment", "written"),
    [
        ({"TERM": "xterm"}, "\x1b[2mworking\x1b[0m\r\x1b[K\x1b[31mno\x1b[0m\n"),
        ({"TERM": "xterm", "NO_COLOR": "1"}, "working\r\x1b[Kno\n"),
        ({"TERM": "dumb"}, "no\n"),
        ({}, "no\n"),
    ],
)
def test_colour_and_live_lines_are_for_terminals_that_want_them(
    environment: dict[str, str], written: str
) -> None:
    """NO_COLOR takes the colours away, a dumb terminal gets plain lines alone."""
    stream = Terminal()
    screen = screen_on(stream, environment)
    screen.status("working")
    screen.line("no", "error")
    assert stream.getvalue() == written
