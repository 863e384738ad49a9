"""The commands by their names, and the groups in which they stand. Imports a command only when it is called.

A command's full name says where it stands: `admin access` is the command `access` of `nacre admin`. Manifests
of extensions name their commands in the same way.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from importlib import import_module
from typing import Any

import click

from nacre.cli.invocation import environment_of
from nacre.cli.screen.examples import with_examples
from nacre.runtime.contracts.errors import ConfigError
from nacre.runtime.extensions.installed.discovery import built_in_manifests
from nacre.runtime.extensions.installed.manifest import Manifest, TerminalCommand

COMMANDS: Mapping[str, tuple[str, str]] = {
    "chat": ("nacre.cli.talk.chat", "Talk to the assistant in this terminal (the default)."),
    "send": ("nacre.cli.talk.send", "Send one message and print the reply."),
    "sessions": (
        "nacre.cli.sessions.commands",
        "List, show, export and delete conversations, or resume one.",
    ),
    "sessions context": (
        "nacre.cli.sessions.context",
        "Show what the model would get now, with sizes in tokens.",
    ),
    "search": ("nacre.cli.memory.search:search", "Find the passages of the notes that fit QUERY best."),
    "memory": ("nacre.cli.memory.commands", "Search, inspect and maintain the notes and their index."),
    "memory diff": ("nacre.cli.memory.history:diff", "Show what COMMIT changed, by default the newest one."),
    "memory log": (
        "nacre.cli.memory.history:log",
        "List the commits of the notes, or those that changed PATH, newest first.",
    ),
    "memory meter": (
        "nacre.cli.memory.meter:meter",
        "Show how full MEMORY.md and the other files of the context are.",
    ),
    "memory review": (
        "nacre.cli.memory.review:review",
        "List the notes that wait for you, and accept, edit or reject them.",
    ),
    "memory search": (
        "nacre.cli.memory.search:search",
        "Find the passages of the notes that fit QUERY best.",
    ),
    "memory undo": (
        "nacre.cli.memory.history:undo",
        "Revert COMMIT by a new commit; by default the last one of a session.",
    ),
    "serve": (
        "nacre.cli.serving.serve",
        "Run the channels and services of the settings until a signal.",
    ),
    "status": ("nacre.cli.serving.status", "Show the model, notes, sessions, cost and channels."),
    "usage": ("nacre.cli.sessions.usage", "Show the tokens and cost of models and embeddings."),
    "doctor": ("nacre.cli.setup.doctor.command", "Find problems and say how to solve them."),
    "init": ("nacre.cli.setup.init", "Set up the assistant: folders, model, channels."),
    "config": ("nacre.cli.setup.config.commands", "Show and change the settings."),
    "admin": ("nacre.cli.admin", "Access, extensions, schedule, log, agents, MCP, databases."),
    "admin access": (
        "nacre.cli.permissions.access",
        "List who may write to the assistant, and admit people.",
    ),
    "admin agents": ("nacre.cli.setup.agents", "List the agents that the settings name."),
    "admin completion": (
        "nacre.cli.setup.completion",
        "Print a script for Tab completion in your shell.",
    ),
    "admin extensions": (
        "nacre.cli.permissions.extensions",
        "List extensions, skills and hooks, and whether they are on.",
    ),
    "admin log": (
        "nacre.cli.serving.log",
        "Show the end of the log, which never contains what people said.",
    ),
    "admin schedule": ("nacre.cli.serving.schedule", "List, create and remove scheduled jobs."),
}
"""By full name: the module whose `command` it is, or another attribute of it, and its line in the help."""

FORMER_NAMES: Mapping[str, str] = {
    "agents": "admin agents",
    "completion": "admin completion",
    "context": "sessions context",
    "extensions": "admin extensions",
    "hooks": "admin extensions hooks",
    "log": "admin log",
    "ltm": "memory ltm",
    "mcp": "admin mcp",
    "pairing": "admin access",
    "schedule": "admin schedule",
    "skills": "admin extensions skills",
    "storage": "admin storage",
    "token": "admin access token",
    "worker": "admin worker",
    "workspace": "admin workspace",
}
"""Names that still work in this version, and are in no list."""


class Noun(click.Group):
    """A group of commands: its own, those of `COMMANDS` and those of extensions whose names begin with it.

    `noun` is its full name, empty for `nacre` itself.
    """

    def __init__(self, *arguments: Any, noun: str = "", **keywords: Any) -> None:
        super().__init__(*arguments, **keywords)
        self.noun = noun

    def list_commands(self, _ctx: click.Context) -> list[str]:
        """The names below this one; of Nacre's own groups those of extensions come last."""
        names = [self._below(name) for name in (*COMMANDS, *sorted(built_in_commands()))]
        return list(dict.fromkeys([*self.commands, *filter(None, names)]))

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The command of this name, imported now; examples stand below its help."""
        if cmd_name in self.commands:
            return super().get_command(ctx, cmd_name)
        name = f"{self.noun} {cmd_name}".strip()
        if name not in COMMANDS:
            return extension_command(ctx, name)
        module, _, attribute = COMMANDS[name][0].partition(":")
        command = getattr(import_module(module), attribute or "command")
        assert isinstance(command, click.Command)
        return with_examples(command, name)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """As click does. A former name is followed, and a misspelled one is answered with the nearest."""
        former = FORMER_NAMES.get(f"{self.noun} {args[0]}".strip())
        if former is not None:
            click.echo(
                f"`nacre {args[0]}` is now `nacre {former}`; the old name works in this version.", err=True
            )
            *nouns, last = former.split()
            group: click.Command | None = self
            for noun in nouns:
                assert isinstance(group, click.Group)
                group = group.get_command(ctx, noun)
            assert isinstance(group, click.Group)
            return group.resolve_command(ctx, [last, *args[1:]])
        try:
            return super().resolve_command(ctx, args)
        except click.UsageError as error:
            from difflib import get_close_matches

            nearest = get_close_matches(args[0].lower(), self.list_commands(ctx), n=1)
            if not nearest:
                raise
            raise click.UsageError(f"{error.message} Did you mean {nearest[0]!r}?", ctx) from error

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The commands with their lines, for which none is imported."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, self.line(ctx, name)) for name in self.list_commands(ctx)])

    def line(self, ctx: click.Context, name: str) -> str:
        """The line of a command in the help."""
        full = f"{self.noun} {name}".strip()
        if full in COMMANDS:
            return COMMANDS[full][1]
        if full in built_in_commands():
            return built_in_commands()[full].help
        command = super().get_command(ctx, name)
        return command.get_short_help_str(limit=200) if command is not None else ""

    def _below(self, name: str) -> str:
        """The part of a full name behind this noun, if it is one word."""
        noun, _, last = name.rpartition(" ")
        return last if noun == self.noun else ""


def built_in_commands() -> Mapping[str, TerminalCommand]:
    """The commands of the built-in extensions, by their names behind `nacre`."""
    return _of(built_in_manifests())


def extension_command(context: click.Context, name: str) -> click.Command | None:
    """The command of this name that an extension adds, or None.

    Third parties are looked at only if no built-in extension has the command, and only if they are on.

    Raises:
        click.ClickException: the command could not be imported.
    """
    found = built_in_commands().get(name) or _of(_chosen(context)).get(name)
    return None if found is None else _loaded(name, found)


def _of(manifests: Iterable[Manifest]) -> dict[str, TerminalCommand]:
    return {name: command for each in manifests for name, command in sorted(each.commands.items())}


def _chosen(context: click.Context) -> Iterable[Manifest]:
    from nacre.runtime.extensions.choice import chosen, named
    from nacre.runtime.extensions.installed.discovery import installed_extensions
    from nacre.runtime.settings.config import load_config

    try:
        config = load_config(environment_of(context))
    except ConfigError:
        return []
    plugins, driver = config.settings.plugins, config.folders.storage.driver
    if not named(plugins) and config.is_in_files:
        return []
    return [
        item.manifest
        for item in installed_extensions()
        if item.manifest is not None
        and not item.problem
        and chosen(item.id, item.manifest.kind, plugins, driver=driver).is_on
    ]


def _loaded(name: str, command: TerminalCommand) -> click.Command:
    module, _, attribute = command.entry.partition(":")
    try:
        found = getattr(import_module(module), attribute)
    except (ImportError, AttributeError) as error:
        raise click.ClickException(f"The command {name!r} could not be loaded: {error}.") from error
    if not isinstance(found, click.Command):
        raise click.ClickException(f"{command.entry} is no click command, so {name!r} cannot run.")
    examples = {f"{name} {below}".rstrip(): lines for below, lines in command.examples.items()}
    return with_examples(found, name, examples)
