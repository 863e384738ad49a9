"""The command `nacre hooks`: the files in the workspace's `hooks/` folder, and which of them may run."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import click

from nacre.cli.invocation import begin, json_option, shared_options
from nacre.cli.screen.json_text import print_json

if TYPE_CHECKING:
    from nacre.cli.invocation import Invocation
    from nacre.runtime.hooks.trust import HookFile, TrustedHooks

_NOBODY_AT_IT = (
    "Trust is given by the owner in a terminal, and standard input is none. "
    "Run nacre hooks trust {name} yourself."
)


@click.group("hooks", invoke_without_command=True)
@json_option("Print a JSON list.")
@shared_options
def command(context: click.Context, as_json: bool) -> int | None:
    """List the hooks of the workspace and trust them.

    A file hooks/NAME.py runs with the assistant's rights, and only while its content is trusted.
    """
    if context.invoked_subcommand:
        return None
    from nacre.cli.screen.plain import one_line

    invocation = begin(context)
    digests, problem = _digests(_trusted(invocation))
    files = _files(invocation)
    rows = [(file, file.state(digests)) for file in files]
    if as_json:
        return print_json([_json(file, state) for file, state in rows])
    width = max((len(one_line(file.name)) for file in files), default=0)
    for file, state in rows:
        why = f": {file.problem}" if file.problem else ""
        invocation.say(f"{one_line(file.name).ljust(width)}  {state}{why}")
    if not rows:
        invocation.say(f"There are no hooks in {invocation.short(invocation.config.workspace / 'hooks')}.")
    invocation.warn(*problem)
    return 0


@command.command("trust")
@click.argument("name")
@json_option("Print a JSON object.")
@shared_options
def trust(context: click.Context, name: str, as_json: bool) -> int:
    """Let hooks/NAME.py run as it is now; every later change takes that back.

    Read the file before. Asks for a terminal, so that no program trusts in the owner's place.
    """
    from nacre.runtime.contracts.clock import owner_zone, system_clock

    invocation = begin(context)
    if not sys.stdin.isatty():
        invocation.warn(_NOBODY_AT_IT.format(name=name), tone="error")
        return 1
    found = next((file for file in _files(invocation) if file.name == name.removesuffix(".py")), None)
    if found is None or found.problem:
        why = f"{found.problem}" if found else f"there is no hooks/{name.removesuffix('.py')}.py"
        invocation.warn(f"Nothing was trusted: {why}. `nacre hooks` lists what is there.", tone="error")
        return 1
    _trusted(invocation).trust(found, now=system_clock(owner_zone(None)))
    if as_json:
        return print_json(_json(found, "trusted"))
    invocation.say(f"hooks/{found.name}.py is trusted as it is now (sha256 {found.sha256[:16]}…).")
    invocation.say("It runs when the assistant is opened the next time.")
    return 0


@command.command("distrust")
@click.argument("name")
@json_option("Print a JSON object.")
@shared_options
def distrust(context: click.Context, name: str, as_json: bool) -> int:
    """Let hooks/NAME.py run no more, from the next opening on."""
    from nacre.runtime.contracts.clock import owner_zone, system_clock

    invocation = begin(context)
    plain = name.removesuffix(".py")
    if _trusted(invocation).distrust(plain, now=system_clock(owner_zone(None))):
        if as_json:
            return print_json({"distrusted": plain})
        invocation.say(f"hooks/{plain}.py is not trusted any more. An assistant that is open still runs it.")
        return 0
    invocation.warn(f"hooks/{plain}.py was not trusted.", tone="error")
    return 1


def _files(invocation: Invocation) -> tuple[HookFile, ...]:
    from nacre.runtime.hooks.trust import hook_files

    return hook_files(invocation.config.workspace)


def _trusted(invocation: Invocation) -> TrustedHooks:
    from nacre.runtime.hooks.trust import TrustedHooks

    return TrustedHooks(invocation.config.folders.trusted_hooks)


def _digests(trusted: TrustedHooks) -> tuple[dict[str, str], tuple[str, ...]]:
    try:
        return dict(trusted.digests()), ()
    except ValueError as error:
        return {}, (str(error),)


def _json(file: HookFile, state: str) -> dict[str, Any]:
    return {"name": file.name, "state": state, "sha256": None if file.problem else file.sha256}
