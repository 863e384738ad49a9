"""The line and tone that an event shows to the owner. The text of the answer is displayed elsewhere."""

from __future__ import annotations

import json

from nacre.cli.screen.plain import cut_to_cells, one_line
from nacre.cli.screen.screen import Tone
from nacre.memory.files.sources.secrets import REDACTED, without_secrets
from nacre.runtime.commands.wording import counted, short_count
from nacre.runtime.contracts.errors import AgentError, ModelError, TurnCancelled
from nacre.runtime.contracts.events import (
    AnswerDiscarded,
    ApprovalAsked,
    CompactionEnded,
    Event,
    FallbackAnswered,
    FlushEnded,
    ModelRetried,
    ModelSlow,
    SessionReset,
    Silence,
    ToolEnded,
    TurnFailed,
    Warned,
)

Line = tuple[str, Tone]

_SAID_CELLS = 300


def event_line(event: Event) -> Line | None:
    """The line for an event that ended something or warns of something, `None` for the others."""
    match event:
        case ToolEnded(is_error=True):
            return f"· {one_line(event.tool_name)} failed: {one_line(event.summary)}", "warning"
        case ToolEnded():
            return f"· {one_line(event.tool_name)}: {one_line(event.summary)}", "dim"
        case ApprovalAsked():
            call_id = event.approval_id
            how = f'  To let it run: nacre send -m "/approve {call_id}", or else "/deny {call_id}".'
            return f"{asked_text(event)}\n{how}", "warning"
        case FlushEnded(status="written"):
            count = _note_count(event.notes)
            notes = counted(count, "note") if count else "notes"
            gone = f"; a key or password in them became {REDACTED}" if REDACTED in event.notes else ""
            return f"· saved {notes} to {one_line(event.path)}{gone}", "dim"
        case FlushEnded(status="proposed"):
            return f"· notes for {one_line(event.path)} wait for you: /review shows them", "dim"
        case FlushEnded(status="nothing"):
            return "· nothing new to note down", "dim"
        case FlushEnded(status="fallback"):
            path, problem = one_line(event.path), one_line(event.problem)
            return f"· an extract was saved to {path}, without the model: {problem}", "warning"
        case FlushEnded():
            return f"· notes could not be saved: {one_line(event.problem)}", "warning"
        case CompactionEnded(reason="manual"):
            return None  # the reply to /compact says it
        case CompactionEnded(problem=""):
            before, after = short_count(event.tokens_before), short_count(event.tokens_after)
            file = one_line(event.transcript)
            return f"· history compacted {before} → {after} tokens, every word stays in {file}", "dim"
        case CompactionEnded():
            return f"· history was not compacted: {one_line(event.problem)}", "warning"
        case SessionReset(reason="daily"):
            return "· a new day, a fresh session; /resume goes back to the one before", "dim"
        case SessionReset():
            return "· after a long silence, a fresh session; /resume goes back to the one before", "dim"
        case ModelSlow():
            return _slow_text(event), "warning"
        case ModelRetried():
            seconds = f"{event.delay_seconds:.1f}".removesuffix(".0")
            return f"· {one_line(event.problem)} Attempt {event.attempt + 1} in {seconds} s.", "warning"
        case AnswerDiscarded():
            return f"· the answer broke off and comes anew: {one_line(event.problem)}", "warning"
        case FallbackAnswered():
            text = f"· answered by {one_line(event.model_name)}: {one_line(event.problem)}"
            return without_secrets(text), "warning"
        case Warned():
            return f"· {one_line(event.message)}", "warning"
        case Silence():
            return "· (nothing to say)", "dim"
        case TurnFailed(error=TurnCancelled()):
            return "· stopped", "warning"
        case TurnFailed():
            return failure_text(event.error), "error"
        case _:
            return None


def failure_text(error: AgentError) -> str:
    """The error, followed by the provider's message on its own line."""
    said = one_line(error.provider_words) if isinstance(error, ModelError) else ""
    return f"{error}\nThe provider said: {cut_to_cells(said, _SAID_CELLS)}" if said else str(error)


def _slow_text(event: ModelSlow) -> str:
    name, seconds = one_line(event.model_name), f"{event.silent_seconds:.15g}"
    what = "has begun and then sent nothing" if event.has_begun else "is slow: it has sent nothing"
    if event.is_reading:
        what = "still reads the conversation: it has said nothing"
    then = f"; else {one_line(event.next_model_name)} is asked in a while" if event.next_model_name else ""
    return without_secrets(f"· {name} {what} for {seconds} s. Ctrl-C stops the turn{then}.")


def asked_text(event: ApprovalAsked) -> str:
    """Which call waits for the owner, and why."""
    name, why = one_line(event.tool_name), one_line(event.why)
    return f"· {name} waits for your approval: {why} {one_line(shown_arguments(event))}"


def shown_arguments(event: ApprovalAsked) -> str:
    """All arguments of a call that waits for approval: the owner approves only what they have seen."""
    return json.dumps(dict(event.arguments), ensure_ascii=False)


def _note_count(notes: str) -> int:
    return sum(line.startswith(("- ", "* ")) for line in notes.splitlines())
