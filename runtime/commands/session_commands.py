"""The chat commands about a session: `/new`, `/resume`, `/rewind`, `/model`, `/context` and others."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import UTC, datetime, tzinfo
from difflib import get_close_matches
from functools import partial

from nacre.runtime.commands.command import Command, CommandRun, Outcome, command_reply
from nacre.runtime.commands.conversation.branching import Rewound, fork, label, rewind
from nacre.runtime.commands.conversation.changing import (
    LISTED,
    begin_fresh,
    earlier_named,
    earlier_sessions,
    resume,
)
from nacre.runtime.commands.conversation.chosen_models import NamedModel
from nacre.runtime.commands.conversation.context_parts import ContextView, context_of
from nacre.runtime.commands.conversation.history import (
    HERE,
    SessionTurn,
    is_spoken,
    labels_of,
    turns_of,
)
from nacre.runtime.commands.wording import compaction_text, counted, short_count, shortened
from nacre.runtime.contracts.errors import ConfigError, PlaceUnknown
from nacre.runtime.open_sessions.open_session import OpenSession
from nacre.sessions.contracts.errors import SessionNotFound
from nacre.sessions.contracts.keys import EndReason
from nacre.sessions.upkeep.stored_session import LEAST_ID_CHARS, StoredSession

MOST_LISTED = 10
SHOWN_CHARS = 60
LEAST_LIKENESS = 0.5
"""The least similarity of a misspelled model name: `difflib`'s ratio, where 1 is identical."""

_conversation_command = partial(Command, group="Conversation")
_channel_command = partial(Command, group="Channels")


def place_named(run: CommandRun, word: str) -> str | SessionTurn:
    """The place with this number in the list; otherwise the word itself."""
    turns = _listed(run)
    if word.isdecimal() and 1 <= int(word) <= len(turns):
        return turns[int(word) - 1]
    return word


def places_text(run: CommandRun, *, problem: str = "") -> str:
    """The answer to `/rewind` and `/fork` without a place or with an unknown one."""
    lines, turns, zone = [problem] if problem else [], _listed(run), run.turn.parts.now().tzinfo
    if not turns:
        return "\n".join([*lines, "Nothing has been said here yet, so there is nothing to go back to."])
    lines.append("Go back to before one of these; nothing is deleted:")
    for number, turn in enumerate(turns, 1):
        text, leaves = shortened(turn.text, SHOWN_CHARS), counted(turn.leaves, "message")
        lines.append(f"{number:>3} · {_clock(turn.said_at, zone)} · “{text}” · leaves {leaves}")
    if labels := labels_of(run.turn.session.journal.tree):
        names = (f"{label.name} ({_clock(label.at, zone)})" for label in labels)
        lines.append("Names: " + ", ".join(names))
    lines += [
        "/rewind 1 goes back here; /fork 1 does so in a new session and leaves this one unchanged; "
        "/fork here continues in a copy. A name or an entry's id works like a number.",
        "/rewind 1 <note> tells the assistant what to remember of the part that it leaves.",
    ]
    return "\n".join(lines)


def _listed(run: CommandRun) -> Sequence[SessionTurn]:
    return turns_of(run.turn.session.branch, limit=MOST_LISTED)


def _clock(moment: datetime, zone: tzinfo | None) -> str:
    return moment.astimezone(zone).strftime("%Y-%m-%d %H:%M")


async def fresh(run: CommandRun, reason: EndReason) -> Outcome:
    """Replies to the command, or to the text after it, which may begin with a model."""
    named = await run.chosen.named(run.rest)
    text = run.rest if named is None else named.rest
    turn = await begin_fresh(
        run.turn,
        reason,
        lifecycle=run.lifecycle,
        chosen=run.chosen,
        named=named,
        text=text,
        attachments=run.attachments,
        quoted=run.quoted,
    )
    if text or run.attachments or run.quoted:
        return turn, await turn.answer()
    name, usual = turn.parts.model.name, run.chosen.default_name
    default = f" (default: {usual})" if name != usual else ""
    return turn, command_reply(turn.session, f"✅ New session started · model: {name}{default}")


NEW = _conversation_command(
    name="new",
    arguments="[model] [text]",
    help="start a fresh session; notes are saved first",
    run=partial(fresh, reason="new"),
)

_SOFT = re.compile(r"soft(?=\s|$)(.*)", re.IGNORECASE | re.DOTALL)


async def _reset(run: CommandRun) -> Outcome:
    soft = _SOFT.fullmatch(run.rest)
    if soft is None:
        return await fresh(run, "reset")
    turn, text = run.turn, soft[1].strip()
    if turn.session.has_messages:
        await turn.recall()
    if not (text or run.attachments or run.quoted):
        return run.reply("♻️ The notes were read again; this session continues.")
    await turn.write_down(text, run.attachments, quoted=run.quoted)
    return turn, await turn.answer()


RESET = _conversation_command(
    name="reset", arguments="[text]", help="like /new; /reset soft only reads the notes again", run=_reset
)

SHORT_ID_CHARS = 8


async def _resume(run: CommandRun) -> Outcome:
    name, turn, session = run.rest, run.turn, run.turn.session
    earlier = await earlier_sessions(session, turn.parts)
    listed = await turn.parts.sessions.store.last_messages(earlier, most=LISTED)
    if not name:
        return run.reply(_list_text(listed, session, turn.parts.now()))
    if name == session.session_id:
        return run.reply("This is the current session.")
    try:
        # An id may begin with digits, too, but is never as short as a number.
        if name.isdecimal() and len(name) < LEAST_ID_CHARS and 1 <= int(name) <= len(listed):
            chosen = listed[int(name) - 1][0]
        else:
            chosen = earlier_named(name, earlier, turn)
    except SessionNotFound:
        return run.reply(f"This chat has no earlier session {name!r}. /resume lists them.")
    reopened = await resume(turn, chosen)
    text = "That session was private and is not shown here; a new one was started."
    if reopened.session_id == chosen.session_id:
        count = sum(map(is_spoken, reopened.branch))
        text = (
            f"↩️ Back in the session of {_day(chosen, turn.parts.now())} · {counted(count, 'message')}. "
            f"Return to the one you left with /resume {session.session_id[:SHORT_ID_CHARS]}"
        )
    # The reply names the new session; the turn stays where the command was given.
    return turn, command_reply(reopened, text)


def _list_text(listed: list[tuple[StoredSession, str]], session: OpenSession, now: datetime) -> str:
    if not listed:
        return "This chat has no earlier session to go back to."
    lines = ["Earlier sessions of this chat; /resume and a number or an id goes back:"]
    for number, (item, words) in enumerate(listed, start=1):
        # Readers in a group need not have been part of that session.
        shown = f" · {shortened(words, SHOWN_CHARS)}" if session.policy.is_private else ""
        lines.append(f"{number}. {_day(item, now)} · {item.session_id[:SHORT_ID_CHARS]}{shown}")
    return "\n".join(lines)


def _day(session: StoredSession, now: datetime) -> str:
    try:
        return f"{datetime.fromtimestamp(session.active_at_ms / 1000, now.tzinfo or UTC):%Y-%m-%d %H:%M}"
    except (OverflowError, ValueError, OSError):
        return "an unknown day"


RESUME = _conversation_command(
    name="resume", arguments="[id]", help="go back to an earlier session; alone it lists them", run=_resume
)


async def _rewind(run: CommandRun) -> Outcome:
    word, note = [*run.rest.split(None, 1), "", ""][:2]
    if not word:
        return run.reply(places_text(run))
    try:
        rewound = await rewind(run.turn, place_named(run, word), note=note)
    except PlaceUnknown as error:
        return run.reply(places_text(run, problem=str(error)))
    if rewound.return_place is None:
        return run.reply("This is where the conversation is; nothing was changed.")
    return run.reply(_rewound_text(rewound))


def _rewound_text(rewound: Rewound) -> str:
    counts = [f"⏪ Went back: {counted(rewound.left, 'message')} left"]
    if rewound.regained:
        counts.append(f"{counted(rewound.regained, 'message')} back in view")
    lines = [", ".join(counts) + "."]
    if rewound.last_said is None:
        lines.append("The conversation is empty now.")
    else:
        who = "You" if rewound.last_said.speaker == "person" else "Assistant"
        words = shortened(rewound.last_said.text, SHOWN_CHARS)
        lines.append(f"The last words are now: {who}: “{words}”")
    if rewound.files:
        lines.append(f"Files stay as they are: {', '.join(rewound.files)}.")
    lines.append(f"/rewind {rewound.return_place} returns to where you were.")
    return "\n".join(lines)


REWIND = _conversation_command(
    name="rewind", arguments="[place]", help="go back to before something you said", run=_rewind
)


async def _fork(run: CommandRun) -> Outcome:
    word, left = run.rest.strip(), run.turn.session
    if not word:
        return run.reply(places_text(run))
    is_here = word.lower() == HERE and left.has_messages
    try:
        forked = await fork(run.turn, None if is_here else place_named(run, word))
    except PlaceUnknown as error:
        return run.reply(places_text(run, problem=str(error)))
    text = (
        f"🍴 This chat continues in the new session {forked.session_id}. "
        f"The session {left.session_id} is unchanged; /resume {left.session_id} goes back to it."
    )
    return run.turn, command_reply(left, text, session_id=forked.session_id)


FORK = _conversation_command(
    name="fork", arguments="[place]", help="continue in a copy, from there or from here", run=_fork
)


async def _label(run: CommandRun) -> Outcome:
    name = run.rest.strip()
    try:
        has_moved = await label(run.turn, name)
    except PlaceUnknown as error:
        return run.reply(f"{error} For example: /label draft")
    moved = " It named another place before." if has_moved else ""
    return run.reply(f"🏷 This place is called {name}; /rewind {name} comes back to it.{moved}")


LABEL = _conversation_command(
    name="label", arguments="name", help="name this place, for /rewind name", run=_label
)


async def _compact(run: CommandRun) -> Outcome:
    if not run.turn.session.has_messages:
        return run.reply("⚙️ Compaction skipped: nothing has been said in this session yet.")
    ended = await run.turn.compact(focus=run.rest)
    return run.reply(compaction_text(ended, (await run.turn.window()).budget))


COMPACT = _conversation_command(
    name="compact",
    arguments="[focus]",
    help="save notes, then shorten the history to a summary",
    run=_compact,
)


async def _model(run: CommandRun) -> Outcome:
    name, chosen = run.rest.strip(), run.chosen
    if not name:
        others = [each for each in chosen.names if each != run.turn.parts.model.name]
        rest = [f"Also set up: {', '.join(others)}."] if others else []
        how = "/model NAME changes it for this chat; /model default goes back."
        return run.reply("\n".join([f"Model: {run.turn.parts.model.name}", *rest, how]))
    named = await chosen.named(name)
    if named is None and all(name.partition("/")) and not name.split()[1:]:
        named = NamedModel(name=name, rest="")  # here, a word with a slash is a model
    if named is None or named.rest:
        nearest = get_close_matches(name.lower(), chosen.names, n=1, cutoff=LEAST_LIKENESS)
        meant = f" Did you mean {nearest[0]}?" if nearest else " Name it as provider/model."
        return run.reply(f"No model is called {name!r}.{meant}")
    try:
        if named.name:
            chosen.chain(named.name)
    except ConfigError as error:
        return run.reply(f"The model stays {run.turn.parts.model.name}: {error}")
    await run.turn.session.line.choose_model(named.name)
    turn = chosen.applied(run.turn)
    return turn, command_reply(turn.session, f"✅ Model: {turn.parts.model.name}. It answers from now on.")


MODEL = _conversation_command(
    name="model",
    arguments="[name]",
    help="show or change the model of this chat",
    run=_model,
    where=("private",),
)


async def _context(run: CommandRun) -> Outcome:
    return run.reply("\n".join(context_lines(await context_of(run.turn))))


def context_lines(view: ContextView) -> list[str]:
    """The parts with their tokens, the total relative to the window, and the cached tokens."""
    budget, width = view.budget, max(len(part.name) for part in view.parts)
    percent = round(100 * view.tokens / budget.window_tokens)
    lines = [
        f"{view.key} · {view.model_name}",
        *(
            f"{part.name:<{width}}  {short_count(part.tokens):>6}{'  cached' if part.is_cached else ''}"
            for part in view.parts
        ),
        f"{'together':<{width}}  {short_count(view.tokens):>6}  about {percent}% of "
        f"{short_count(budget.window_tokens)}, flush at {short_count(budget.flush_at)}, "
        f"compact above {short_count(budget.compact_at)}",
    ]
    usage = view.last_usage
    if usage is not None:
        lines.append(
            f"last reply: {short_count(usage.cache_read_tokens)} of {short_count(usage.prompt_tokens)} "
            "tokens came from the provider's cache"
        )
    return lines


CONTEXT = Command(
    name="context", help="what the model would read now, with sizes", run=_context, group="This chat"
)


async def _elsewhere(run: CommandRun) -> Outcome:
    return run.reply("This applies to chats that `nacre serve` answers. Here every message is answered.")


QUEUE = _channel_command(
    name="queue",
    help="what becomes of messages that arrive during a turn",
    arguments="[mode]",
    run=_elsewhere,
)
SEND = _channel_command(
    name="send", help="whether messages are answered here", arguments="[mode]", run=_elsewhere
)
ACTIVATION = _channel_command(
    name="activation",
    help="whether a group is always answered",
    arguments="[mode]",
    run=_elsewhere,
    where=("group",),
)


async def _changed_by_hook(run: CommandRun) -> Outcome:
    """Runs if a hook made the message an answer, because a hook must not answer in the owner's name."""
    return run.reply("A hook changed this message, so it cannot answer a tool call. Send the command itself.")


APPROVE = Command(
    name="approve",
    arguments="[id]",
    help="let a waiting tool call run; alone it lists them",
    group="This chat",
    run=_changed_by_hook,
)
DENY = Command(
    name="deny",
    arguments="id [reason]",
    help="refuse a waiting tool call",
    group="This chat",
    run=_changed_by_hook,
)
"""Calls are answered in `runtime/agent/answering.py`, without the session's lock, which the waiting turn
holds.
"""
