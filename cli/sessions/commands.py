"""The commands `nacre sessions …`: list, show, export, delete and clean up conversations."""

from __future__ import annotations

import sys
from collections.abc import Awaitable, Callable
from functools import partial, wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from nacre.cli.invocation import Invocation, begin, json_option, shared_options
from nacre.cli.nouns import Listing
from nacre.cli.screen.json_text import print_json
from nacre.cli.screen.screen import screen_on

if TYPE_CHECKING:
    from nacre.cli.sessions.shelf import SessionShelf

SHOWN_MESSAGES = 10
MOST_SESSIONS = 40
"""The most sessions without --all, so that hundreds of imported ones do not hide the others."""


def on_shelf(work: Callable[..., Awaitable[int]], *, reads_only: bool = False) -> Callable[..., int]:
    """Makes a command of `work(shelf, invocation, …)`; failures become sentences and exit code 1."""

    @wraps(work)
    def run(context: click.Context, **options: Any) -> int:
        def run_work(shelf: SessionShelf, invocation: Invocation) -> Awaitable[int]:
            invocation.warn(*invocation.config.notices)
            return work(shelf, invocation, **options)

        return run_on_shelf(context, run_work, reads_only=reads_only)

    return run


reading_shelf = partial(on_shelf, reads_only=True)
"""`on_shelf` for a command that at most writes a new file: a signal ends it at once."""


@click.group("sessions", cls=Listing, noun="sessions")
@click.option("--all", "with_earlier", is_flag=True, help="Also the earlier sessions of each key.")
@json_option()
@shared_options
@reading_shelf
async def command(shelf: SessionShelf, invocation: Invocation, with_earlier: bool, as_json: bool) -> int:
    """List, show, export and delete conversations, or resume one.

    Without a command, it lists them, most recently active first. NAME is a key such as main or
    telegram:group:7, an id, or the beginning of an id.
    """
    from nacre.cli.sessions.text import list_json, list_lines

    sessions = await shelf.store.sessions(with_earlier=True)
    if not with_earlier:
        current = {each.key: each for each in reversed(sessions)}  # an imported key has no current session
        current |= {each.key: each for each in sessions if each.is_current}
        sessions = [each for each in sessions if current[each.key] is each]
    if as_json:
        return print_json(list_json(sessions, shelf.store.place, main_key=shelf.main_key))
    shown = sessions if with_earlier else sessions[:MOST_SESSIONS]
    words = await shelf.last_words(shown)
    screen = screen_on(sys.stdout, invocation.environment)
    for row in list_lines(shown, words, now=shelf.now(), main_key=shelf.main_key):
        screen.row(row)
    if len(sessions) > len(shown):
        invocation.warn(f"{len(sessions) - len(shown)} more: `nacre sessions list --all`", tone="dim")
    return 0


@command.command("show")
@click.argument("name")
@click.option(
    "--last",
    metavar="N",
    type=click.IntRange(min=0),
    default=SHOWN_MESSAGES,
    help=f"Number of messages; default: {SHOWN_MESSAGES}.",
)
@json_option()
@shared_options
@reading_shelf
async def show(shelf: SessionShelf, invocation: Invocation, name: str, last: int, as_json: bool) -> int:
    """Show a session and the last messages of its current branch."""
    from nacre.cli.sessions.text import show_json, show_lines

    session = await shelf.find(name)
    transcript = await shelf.store.stored(session)
    if as_json:
        return print_json(show_json(session, transcript, last=last, main_key=shelf.main_key))
    now, main_key, short = shelf.now().astimezone(shelf.zone), shelf.main_key, invocation.short
    invocation.say(*show_lines(session, transcript, last=last, now=now, main_key=main_key, short=short))
    return 0


@command.command("export")
@click.argument("name")
@click.option(
    "--format",
    "form",
    type=click.Choice(["markdown", "json", "jsonl"]),
    help="Default: by the name of FILE, or markdown; jsonl is the unchanged transcript.",
)
@json_option("The same as --format json.")
@click.option(
    "-o",
    "--output",
    metavar="FILE",
    type=click.Path(path_type=Path, dir_okay=False),
    help="A new file to write; default: standard output.",
)
@shared_options
@reading_shelf
async def export(
    shelf: SessionShelf,
    invocation: Invocation,
    name: str,
    form: str | None,
    as_json: bool,
    output: Path | None,
) -> int:
    """Print a whole session, or write it into a new file."""
    from nacre.cli.sessions.text import exported, printable

    by_name = {".json": "json", ".jsonl": "jsonl"}.get(output.suffix.lower(), "") if output else ""
    form = form or ("json" if as_json else by_name or "markdown")
    session = await shelf.find(name)
    if form == "jsonl":
        data = await shelf.store.exported(session.transcript)
    else:
        data = exported(form, session, await shelf.store.stored(session), shelf.zone)
    if output is None:
        # The text must not control a terminal, even behind a pipe; a file gets the bytes unchanged.
        sys.stdout.buffer.write(printable(form, data).encode())
        sys.stdout.buffer.flush()
        return 0
    shelf.write_new(output, data)
    invocation.say(f"Wrote session {session.session_id} to {output} ({len(data)} bytes).")
    return 0


@command.command("delete")
@click.argument("names", metavar="NAME...", nargs=-1, required=True)
@json_option()
@shared_options
@on_shelf
async def delete(shelf: SessionShelf, invocation: Invocation, names: tuple[str, ...], as_json: bool) -> int:
    """Delete sessions: they leave the index and memory, and their transcripts are renamed.

    A key means its current session; name earlier ones by their ids, which list --all shows.
    """
    from nacre.cli.sessions.text import deleted_json, deleted_line

    # All names are looked up first, so that a typo deletes nothing.
    sessions = {found.session_id: found for found in [await shelf.find(name) for name in names]}
    deleted = [(session, await shelf.delete(session)) for session in sessions.values()]
    problem = await shelf.forget_in_memory()
    if as_json:
        return print_json(deleted_json(deleted, problem))
    invocation.say(*(deleted_line(*item, invocation.short) for item in deleted))
    if problem:
        invocation.warn(problem)
    return 0


@command.command("cleanup")
@click.option("--dry-run", is_flag=True, help="Change nothing, and show what would be changed.")
@json_option()
@shared_options
@on_shelf
async def cleanup(shelf: SessionShelf, invocation: Invocation, dry_run: bool, as_json: bool) -> int:
    """Apply session.maintenance now, whatever its mode."""
    from nacre.cli.sessions.text import upkeep_json
    from nacre.runtime.session_lifecycle.lifecycle import upkeep_text

    report = await shelf.keep_up(dry_run=dry_run)
    problem = "" if dry_run or report.is_empty else await shelf.forget_in_memory()
    if as_json:
        return print_json(upkeep_json(report, dry_run=dry_run))
    invocation.say(upkeep_text(report, dry_run=dry_run), *([problem] if problem else []))
    return 0


def run_on_shelf(
    context: click.Context,
    work: Callable[[SessionShelf, Invocation], Awaitable[int]],
    *,
    interruptible: bool = True,
    reads_only: bool = False,
) -> int:
    """Runs `work`; notices become warnings, and failures a sentence and exit code 1."""
    from nacre.cli.sessions.shelf import SessionShelf
    from nacre.cli.signals import run_until_signal
    from nacre.sessions.contracts.errors import SessionError

    invocation = begin(context)
    shelf = SessionShelf(invocation.config)

    async def run() -> int:
        code = await work(shelf, invocation)
        invocation.warn(*shelf.notices)
        return code

    try:
        return run_until_signal(run(), interruptible=interruptible, reads_only=reads_only)
    except SessionError as error:
        invocation.warn(str(error), tone="error")
        return 1
