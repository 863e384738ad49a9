"""`/search`, `/remember`, `/forget`, `/undo` and `/review`: the owner's notes from inside a conversation."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from functools import partial
from pathlib import PurePosixPath

from nacre.closing import using
from nacre.memory.contracts.errors import MemoryIndexError
from nacre.memory.contracts.notes import WantedNotes
from nacre.memory.contracts.records import Question
from nacre.memory.contracts.workspace import FileBusy, PathOutsideRoot
from nacre.memory.files.proposals import (
    NoteChange,
    NoteCut,
    Proposal,
    ProposalConflict,
    ProposalFailed,
    ProposalUnknown,
    ReviewQueue,
    cut_note,
    target_of_query,
    write_changes,
)
from nacre.memory.files.sources.attribution import attributed
from nacre.memory.files.sources.proposed_write import ProposedWrite
from nacre.memory.files.sources.rejections import reject
from nacre.memory.workspace.history.commits import SESSION_ID, SESSION_KEY, HistoryBusy, as_one_commit
from nacre.memory.workspace.history.undo import HistoryUnusable, Undone, undo_in, with_history
from nacre.runtime.commands.command import Command, CommandRun, Outcome
from nacre.runtime.commands.wording import counted, found_lines, shortened
from nacre.runtime.recall.memory_plugin import Notes
from nacre.runtime.recall.open_memory import open_memory

_HOW = (
    "`/review accept ID`, `/review reject ID`, or `/review edit ID` and the new text; `all` for each of them."
)
_MOST_DIFF_LINES = 40


async def _review(run: CommandRun) -> Outcome:
    parts = run.turn.parts
    verb, _, rest = run.rest.strip().partition(" ")
    try:
        if verb in ("accept", "reject"):
            return run.reply(await _answer(run, verb, rest.strip()))
        if verb == "edit":
            words = rest.split(maxsplit=1)
            if len(words) < 2:
                return run.reply("Write the new text after the id: /review edit ID TEXT")
            found = await parts.review.find(words[0])
            await parts.review.accept(found, parts.workspace, edited=f"{words[1]}\n")
            parts.on_notes(found.write.path)
            return run.reply(f"Your text is written into {found.write.path}.")
        if verb:
            return run.reply(await _show(run, [await parts.review.find(verb)]))
        return run.reply(await _show(run, list(await parts.review.waiting())))
    except (ProposalUnknown, ProposalConflict, PathOutsideRoot, FileBusy, OSError) as error:
        return run.reply(str(error))


async def _answer(run: CommandRun, verb: str, name: str) -> str:
    parts = run.turn.parts
    queue: ReviewQueue = parts.review
    found = list(await queue.waiting()) if name == "all" else [await queue.find(name)]
    lines: list[str] = []
    for proposal in found:
        try:
            if verb == "accept":
                await queue.accept(proposal, parts.workspace)
                parts.on_notes(proposal.write.path)
            else:
                await queue.reject(proposal, parts.workspace)
        except ProposalConflict as error:
            lines.append(str(error))  # the other proposals are still answered
            continue
        done = "Written into" if verb == "accept" else "Rejected for"
        lines.append(f"{done} {proposal.write.path} ({proposal.id}).")
    return "\n".join(lines) or "Nothing waits for review."


async def _show(run: CommandRun, proposals: list[Proposal]) -> str:
    parts = run.turn.parts
    if not proposals:
        return "Nothing waits for review."
    texts: list[str] = []
    for proposal in proposals:
        diff = (await parts.review.diff(proposal, parts.workspace)).splitlines()[2:]
        if len(diff) > _MOST_DIFF_LINES and len(proposals) > 1:
            rest = len(diff) - _MOST_DIFF_LINES
            diff = [*diff[:_MOST_DIFF_LINES], f"… {rest} more lines: /review {proposal.id}"]
        # Four backticks, because the note may contain a fence.
        texts.append("\n".join((heading(proposal.write, proposal.id), "````diff", *diff, "````")))
    return "\n\n".join((*texts, _HOW))


def heading(write: ProposedWrite, proposal_id: str) -> str:
    """One line about a proposal: its id, its note, and who wrote it when."""
    source = write.source
    by = " in ".join(filter(None, (source.written_by, source.chat)))
    return f"**{proposal_id}** · {write.path} · {by}, {source.at[:16].replace('T', ' ')}"


REVIEW = Command(
    name="review",
    arguments="[id]",
    help="notes that wait for you: show, accept, reject, edit",
    group="Memory",
    run=_review,
    where=("private",),
)

MEMORY_FILE = "MEMORY.md"
FACTS_HEADING = "## Facts"
CONFIRMED = "--yes"
MOST_HITS = 6
MOST_LINES = 12
SHOWN_CHARS = 160

_memory_command = partial(Command, where=("private",), group="Memory")


async def _search(run: CommandRun) -> Outcome:
    query = run.rest.strip()
    if not query:
        return run.reply("Say what to look for: /search dentist")
    chat = run.turn.parts.chat(run.turn.session)
    notes = run.turn.parts.memory.plugin.searchable(chat)
    try:
        if notes is not None:
            return run.reply(await _found(run, notes, query))
        engine = await open_memory(run.config, run.turn.parts.now)
        if engine is None:
            return run.reply(
                "Memory search is switched off. Set agents.defaults.memorySearch.enabled to true to use it."
            )
        async with using(engine):
            return run.reply(await _found(run, engine, query))
    except MemoryIndexError as error:
        return run.reply(str(error))


async def _found(run: CommandRun, notes: Notes, query: str) -> str:
    found = await notes.search(Question(text=query, max_results=MOST_HITS))
    report, sources = await attributed(notes, run.turn.parts.sources, found)
    return "\n".join(found_lines(report, sources, query=query)).rstrip()


async def _remember(run: CommandRun) -> Outcome:
    text = " ".join(run.rest.split())
    if not text:
        return run.reply("Say what to remember: /remember The boat is called Pilot.")
    workspace = run.turn.parts.workspace
    if not run.turn.session.policy.may_write(PurePosixPath(MEMORY_FILE)):
        return run.reply(f"Nothing was written: the settings make {MEMORY_FILE} read-only here.")
    try:
        before = (await workspace.read_notes([MEMORY_FILE]))[MEMORY_FILE]
        if isinstance(before, Exception) and not isinstance(before, FileNotFoundError):
            raise before
        old = None if isinstance(before, Exception) else before.data.decode("utf-8", "surrogateescape")
        line = f"- {text}"
        if line in (old or "").splitlines():
            return run.reply(f"{MEMORY_FILE} has this already.")
        change = NoteChange(path=MEMORY_FILE, before=old, after=_with_fact(old or "", line))
        problem = await _write(run, [change], f"Remembered in {MEMORY_FILE}")
    except (ProposalFailed, HistoryBusy, OSError, FileBusy, PathOutsideRoot) as error:
        return run.reply(f"Nothing was written: {error}")
    undone = "" if problem else " /undo takes it back."
    return run.reply(f"“{text}” is written into {MEMORY_FILE}.{undone}")


def _with_fact(text: str, line: str) -> str:
    """A note with a new list item: the last below the heading for facts, or the last line of all."""
    lines, line_end = text.splitlines(keepends=True), "\r\n" if "\r\n" in text else "\n"
    start = next((at for at, each in enumerate(lines, 1) if each.rstrip() == FACTS_HEADING), 0)
    next_headings = (at for at in range(start, len(lines)) if start and lines[at].startswith("#"))
    end = next(next_headings, len(lines))
    while end > start and not lines[end - 1].strip():
        end -= 1
    above, below = "".join(lines[:end]).rstrip("\r\n"), "".join(lines[end:] if start else ())
    gap = line_end if start < end and start else 2 * line_end
    return f"{above}{gap}{line}{line_end}{below}" if above else f"{line}\n"


async def _forget(run: CommandRun) -> Outcome:
    words = run.rest.split()
    is_confirmed = CONFIRMED in words
    query = " ".join(word for word in words if word != CONFIRMED)
    target = target_of_query(query)
    if not target.words:
        return run.reply("Say which lines to remove from the notes, by words in them: /forget old address")
    workspace, policy = run.turn.parts.workspace, run.turn.session.policy
    engine, done = run.turn.parts.memory.plugin, list[str]()
    try:
        texts = await engine.kept_texts() if policy.access == "rw" else {}
        kept = {text_id: text for text_id, text in texts.items() if target.matches_any(text)}
        listed = await workspace.list_notes([WantedNotes(name=".", is_required=True)])
        names = [note.name for note in listed.notes if policy.may_write(PurePosixPath(note.name))]
        read = await workspace.read_notes(names)
        found = (
            cut_note(name, note.data, lambda _number, line: target.matches(line))
            for name, note in read.items()
            if not isinstance(note, Exception)
        )
        cuts = [cut for cut in found if cut is not None]
        if not (cuts or kept):
            return run.reply(
                f"No line of the notes has all of these words: {query}\n`nacre memory forget '{query}' "
                "--transcripts` finds it in conversations, and removes it there."
            )
        if not is_confirmed:
            return run.reply(_plan_text(cuts, kept.values(), query))
        if cuts:
            paths = ", ".join(cut.path for cut in cuts)
            problem = await _write(run, cuts, f"Forgot lines of {paths}")
            count = counted(sum(len(cut.lines) for cut in cuts), "line")
            done.append(f"Removed {count} from {paths}.{'' if problem else ' /undo brings them back.'}")
        if kept:
            for text in kept.values():
                await reject(workspace, "", text, text.splitlines())
            await engine.forget_texts(kept)
            done.append(f"Removed {counted(len(kept), 'text')} from the long-term memory for good.")
    except (ProposalFailed, HistoryBusy, OSError, FileBusy, PathOutsideRoot, MemoryIndexError) as error:
        return run.reply("\n".join([*done, f"Nothing {'more ' if done else ''}was removed: {error}"]))
    done.append(
        f"Transcripts and older versions of the notes still have it; `nacre memory forget '{query}' "
        "--transcripts --git-history` removes it there too."
    )
    return run.reply("\n".join(done))


def _plan_text(cuts: Sequence[NoteCut], kept: Iterable[str], query: str) -> str:
    lines = [f"{cut.path}: {shortened(line, SHOWN_CHARS)}" for cut in cuts for line in cut.lines]
    lines += [f"long-term memory: {shortened(text, SHOWN_CHARS)}" for text in kept]
    more = [f"… and {len(lines) - MOST_LINES} more"] if len(lines) > MOST_LINES else []
    return "\n".join(
        [
            f"{counted(len(lines), 'line')} would go:",
            *lines[:MOST_LINES],
            *more,
            f"Nothing has changed yet. /forget {query} {CONFIRMED} removes them.",
        ]
    )


async def _write(run: CommandRun, changes: Sequence[NoteChange], subject: str) -> str:
    """Writes the owner's changes as one commit for `/undo`; returns a clause that says why there is none."""
    turn, config = run.turn, run.config
    workspace, session = turn.parts.workspace, turn.session

    async def write() -> None:
        await write_changes(
            workspace,
            changes,
            at=turn.parts.now().isoformat(timespec="seconds"),
            redacts_secrets=turn.parts.sources.secrets != "off",
            is_typed=bool,
        )
        for change in changes:
            if isinstance(change, NoteCut):
                await reject(workspace, change.path, change.before or "", change.lines)

    _commit, problem = await as_one_commit(
        workspace,
        write,
        paths=[change.path for change in changes],
        commits=config.settings.memory.history.commits != "off",
        state_dir=config.state_dir,
        subject=subject,
        trailers=((SESSION_KEY, session.key), (SESSION_ID, session.session_id)),
    )
    for change in changes:
        turn.parts.on_notes(change.path)
    return problem


async def _undo(run: CommandRun) -> Outcome:
    workspace, name = run.turn.parts.workspace, run.rest.strip()

    def undo_now() -> Undone:
        return with_history(
            workspace, run.config.state_dir, lambda repository: undo_in(repository, name), commits=True
        )

    try:
        done = await asyncio.to_thread(undo_now)
    except HistoryUnusable as error:
        return run.reply(str(error))
    for path in done.paths:
        run.turn.parts.on_notes(path)
    diff = (line for line in done.diff.splitlines() if line[:3] not in ("+++", "---"))
    lines = [f"{line[0]} {line[1:]}" for line in diff if line[:1] in ("+", "-")]
    more = [f"… and {len(lines) - MOST_LINES} more lines"] if len(lines) > MOST_LINES else []
    what = done.undone[:12] if name else "the last change"
    return run.reply("\n".join([f"Undid {what} in {', '.join(done.paths)}:", *lines[:MOST_LINES], *more]))


SEARCH = _memory_command(name="search", arguments="words", help="find passages in the notes", run=_search)
REMEMBER = _memory_command(
    name="remember", arguments="text", help=f"write a line into {MEMORY_FILE}, word for word", run=_remember
)
FORGET = _memory_command(
    name="forget", arguments="words", help="remove lines from the notes; shows them first", run=_forget
)
UNDO = _memory_command(
    name="undo", arguments="[commit]", help="take back the last change of the notes", run=_undo
)
