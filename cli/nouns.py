"""The commands by their names, their examples, and their groups. Imports a command when it is called.

A command's full name includes its groups: `admin access` is the command `access` of `nacre admin`. Manifests
of extensions use full names, too.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from importlib import import_module
from typing import Any

import click

from nacre.cli.invocation import environment_of
from nacre.runtime.contracts.errors import ConfigError
from nacre.runtime.extensions.installed.discovery import built_in_manifests, installed_extensions
from nacre.runtime.extensions.installed.manifest import Manifest, TerminalCommand
from nacre.runtime.settings.config import load_config

EXAMPLES: Mapping[str, tuple[str, ...]] = {
    "admin": ("nacre admin access", "nacre admin log -n 50"),
    "search": (
        "nacre search 'when do I see the dentist'",
        "nacre search boat --after 'last March' --max-results 3 --json",
    ),
    "admin agents": ("nacre admin agents", "nacre admin agents --json"),
    "admin agents list": ("nacre admin agents list",),
    "chat": ("nacre chat", "nacre chat --session project"),
    "admin completion": (
        "nacre admin completion bash >> ~/.bashrc",
        "nacre admin completion fish > ~/.config/fish/completions/nacre.fish",
    ),
    "config": ("nacre config get", "nacre config explain agents.defaults.contextTokens", "nacre config edit"),
    "config check": ("nacre config check", "nacre config check --json"),
    "config edit": ("nacre config edit", "EDITOR=nano nacre config edit"),
    "config explain": (
        "nacre config explain agents.defaults.model.primary",
        "nacre config explain usage.dailyCapUsd --json",
    ),
    "config get": (
        "nacre config get agents.defaults.model.primary",
        "nacre --agent work config get agents.defaults.userTimezone",
    ),
    "config path": ("nacre config path",),
    "config schema": ("nacre config schema > ~/.nacre/schema.json",),
    "config set": (
        "nacre config set usage.dailyCapUsd 2",
        "nacre config set 'agents.list[1]' '{id: \"work\"}'",
    ),
    "config unset": ("nacre config unset usage.dailyCapUsd",),
    "sessions context": (
        "nacre sessions context",
        "nacre sessions context main --full",
        "nacre sessions context --json",
    ),
    "doctor": ("nacre doctor", "nacre doctor --online", "nacre doctor --fix"),
    "admin extensions skills": ("nacre admin extensions skills", "nacre admin extensions skills --json"),
    "admin extensions": ("nacre admin extensions", "nacre admin extensions --json"),
    "admin extensions hooks": ("nacre admin extensions hooks", "nacre admin extensions hooks trust evening"),
    "admin extensions hooks distrust": ("nacre admin extensions hooks distrust evening",),
    "admin extensions hooks trust": ("nacre admin extensions hooks trust evening",),
    "init": (
        "nacre init",
        "nacre init --yes --model ollama/llama3.2",
        "nacre init --yes --address http://127.0.0.1:8080/v1",
        "nacre init --yes --service",
        "nacre init --restore nacre-2026-11-20.tar.gz",
    ),
    "admin log": ("nacre admin log -n 50", "nacre admin log -f"),
    "memory": ("nacre memory", "nacre memory search boat", "nacre memory undo"),
    "memory diff": ("nacre memory diff", "nacre memory diff 3f2a9c10"),
    "memory get": ("nacre memory get MEMORY.md", "nacre memory get memory/2026-01-20.md --from 3 --lines 10"),
    "memory index": ("nacre memory index", "nacre memory index --force"),
    "memory log": ("nacre memory log", "nacre memory log MEMORY.md"),
    "memory meter": ("nacre memory meter", "nacre memory meter --json"),
    "memory review": ("nacre memory review", "nacre memory review accept all"),
    "memory search": (
        "nacre memory search 'when do I see the dentist'",
        "nacre memory search boat --after 'last March' --max-results 3 --json",
    ),
    "memory status": ("nacre memory status", "nacre memory status --deep"),
    "memory undo": ("nacre memory undo", "nacre memory undo 3f2a9c10"),
    "memory why": ("nacre memory why memory/2026-01-20.md#L3",),
    "admin access": ("nacre admin access", "nacre admin access approve 7K3QX9"),
    "admin access approve": (
        "nacre admin access approve 7K3QX9",
        "nacre admin access approve 7K3QX9 --owner",
    ),
    "admin access deny": ("nacre admin access deny 7K3QX9",),
    "admin access list": ("nacre admin access list",),
    "admin access revoke": ("nacre admin access revoke telegram 12345",),
    "admin schedule": (
        "nacre admin schedule",
        "nacre admin schedule add 'Water the plants' --cron '0 9 * * MON'",
    ),
    "admin schedule add": (
        "nacre admin schedule add 'Take the bread out' --at 20m",
        "nacre admin schedule add 'Plan the week' --cron '0 9 * * MON'",
    ),
    "admin schedule list": ("nacre admin schedule list",),
    "admin schedule remove": ("nacre admin schedule remove 3",),
    "send": (
        "nacre send -m 'What is my boat called?'",
        "nacre send --session project --json -m 'Sum it up' | jq -r .reply",
    ),
    "serve": ("nacre serve --check", "nacre serve"),
    "sessions": ("nacre sessions list", "nacre sessions show main"),
    "sessions cleanup": ("nacre sessions cleanup --dry-run",),
    "sessions delete": ("nacre sessions delete project",),
    "sessions export": ("nacre sessions export main -o talk.md", "nacre sessions export main --format jsonl"),
    "sessions list": ("nacre sessions list", "nacre sessions list --json"),
    "sessions plot": ("nacre sessions plot main", "nacre sessions plot main -o main.svg"),
    "sessions resume": ("nacre sessions resume 0198c2f0",),
    "sessions show": ("nacre sessions show main --last 30",),
    "sessions trace": ("nacre sessions trace", "nacre sessions trace main --last 5 --json"),
    "status": ("nacre status", "nacre status --json"),
    "usage": ("nacre usage", "nacre usage --by purpose", "nacre usage --by model --json"),
}
"""The epilog of a command's help, by its name after `nacre`, unless its text has examples."""


def epilog(lines: Iterable[str]) -> str:
    """Examples as click shows them, line by line."""
    return "\n".join(["\b", "Examples:", *(f"  {line}" for line in lines)])


def with_examples(
    command: click.Command, name: str, examples: Mapping[str, tuple[str, ...]] = EXAMPLES
) -> click.Command:
    """The command and those below it, with their examples below their options."""
    if name in examples:
        command.epilog = epilog(examples[name])
    if isinstance(command, click.Group):
        for below, other in command.commands.items():
            with_examples(other, f"{name} {below}", examples)
    return command


COMMANDS: Mapping[str, tuple[str, str]] = {
    "chat": ("nacre.cli.talk.chat", "Talk to the assistant in this terminal (the default)."),
    "send": ("nacre.cli.talk.send", "Send one message and print the reply."),
    "sessions": (
        "nacre.cli.sessions.commands",
        "List, show, export and delete conversations, or resume one.",
    ),
    "sessions context": (
        "nacre.cli.sessions.context",
        "Show what the model would receive now, with sizes in tokens.",
    ),
    "sessions plot": (
        "nacre.cli.sessions.plot:plot",
        "Draw how full the context of a session was over time.",
    ),
    "sessions resume": (
        "nacre.cli.sessions.resume:resume",
        "Go back to a session, and continue it as in nacre chat.",
    ),
    "sessions trace": (
        "nacre.cli.sessions.trace:trace",
        "Show the steps of the last turns: messages, models, tools, notes, delivery.",
    ),
    "search": ("nacre.cli.memory.search:search", "Find the passages of the notes that fit QUERY best."),
    "memory": (
        "nacre.cli.memory.commands",
        "Show what is known; search, inspect and maintain the notes.",
    ),
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
    "memory why": ("nacre.cli.memory.why:why", "Show where a line of the notes comes from."),
    "serve": (
        "nacre.cli.serving.serve",
        "Run the channels and services of the settings until a signal.",
    ),
    "status": ("nacre.cli.serving.status", "Show the model, notes, sessions, cost and channels."),
    "usage": ("nacre.cli.sessions.usage", "Show the tokens and cost of models and embeddings."),
    "doctor": ("nacre.cli.setup.doctor", "Find problems and say how to solve them."),
    "init": ("nacre.cli.setup.init", "Set up the assistant: folders, model, channels, service."),
    "config": ("nacre.cli.setup.config.commands", "Show and change the settings."),
    "admin": ("nacre.cli.nouns:admin", "Access, extensions, schedule, log, agents, MCP, databases."),
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


class Noun(click.Group):
    """A group of commands: its own, those of `COMMANDS` and those of extensions whose names begin with it.

    `noun` is its full name, empty for `nacre` itself.
    """

    def __init__(self, *arguments: Any, noun: str = "", **keywords: Any) -> None:
        super().__init__(*arguments, **keywords)
        self.noun = noun

    def list_commands(self, _ctx: click.Context) -> list[str]:
        """The names below this one; those of extensions come last."""
        split = [name.rpartition(" ") for name in (*COMMANDS, *sorted(built_in_commands()))]
        return list(dict.fromkeys([*self.commands, *(last for noun, _, last in split if noun == self.noun)]))

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Imports the command of this name, and adds its examples."""
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
        """Finds the command; for a misspelled name, the error suggests a similar one."""
        try:
            return super().resolve_command(ctx, args)
        except click.UsageError as error:
            from difflib import get_close_matches

            nearest = get_close_matches(args[0].lower(), self.list_commands(ctx), n=1)
            if not nearest:
                raise
            raise click.UsageError(f"{error.message} Did you mean {nearest[0]!r}?", ctx) from error

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Lists the commands with their help, without importing them."""
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


class Listing(Noun):
    """A group that shows its list when no command follows; its command `list` does the same."""

    def __init__(self, *arguments: Any, **keywords: Any) -> None:
        super().__init__(*arguments, invoke_without_command=True, **keywords)
        show = self.callback
        assert show is not None
        help_text = "List them, as without `list`."
        self.add_command(click.Command("list", params=list(self.params), callback=show, help=help_text))

        def unless_a_command_follows(**options: Any) -> Any:
            return None if click.get_current_context().invoked_subcommand else show(**options)

        self.callback = unless_a_command_follows


def built_in_commands() -> Mapping[str, TerminalCommand]:
    """The commands of the built-in extensions, by their full names."""
    return _commands_of(built_in_manifests())


def extension_command(context: click.Context, name: str) -> click.Command | None:
    """The command of an extension with this name, or the group of those whose names begin with it.

    Extensions of third parties count only if no built-in one has the command, and only if they are on.

    Raises:
        click.ClickException: the command could not be imported.
    """
    if (found := built_in_commands().get(name)) is not None:
        return _load(name, found)
    others = _commands_of(_chosen(context))
    if name in others:
        return _load(name, others[name])
    behind = {full: each for full, each in others.items() if full.rpartition(" ")[0] == name}
    loaded = {full.rpartition(" ")[2]: _load(full, each) for full, each in behind.items()}
    return click.Group(name, commands=loaded, help=f"Commands of {name}.") if loaded else None


def _commands_of(manifests: Iterable[Manifest]) -> dict[str, TerminalCommand]:
    return {name: command for each in manifests for name, command in sorted(each.commands.items())}


def _chosen(context: click.Context) -> Iterable[Manifest]:
    from nacre.runtime.extensions.choice import chosen, named

    try:
        config = load_config(environment_of(context))
    except ConfigError:
        return []
    plugins, driver = config.settings.plugins, config.folders.storage.driver
    channels = config.settings.channels
    if not (named(plugins) or channels) and config.is_in_files:
        return []
    return [
        item.manifest
        for item in installed_extensions()
        if item.manifest is not None
        and not item.problem
        and (
            item.id in channels
            if item.manifest.kind == "channel"
            else chosen(item.id, item.manifest.kind, plugins, driver=driver).is_on
        )
    ]


def _load(name: str, command: TerminalCommand) -> click.Command:
    module, _, attribute = command.entry.partition(":")
    try:
        found = getattr(import_module(module), attribute)
    except (ImportError, AttributeError) as error:
        raise click.ClickException(f"The command {name!r} could not be loaded: {error}.") from error
    if not isinstance(found, click.Command):
        raise click.ClickException(f"{command.entry} is not a click command, so {name!r} cannot run.")
    examples = {f"{name} {below}".rstrip(): lines for below, lines in command.examples.items()}
    return with_examples(found, name, examples)


@click.group("admin", cls=Noun, noun="admin")
def admin() -> None:
    """Access, extensions, schedule, log, agents, MCP, databases."""
