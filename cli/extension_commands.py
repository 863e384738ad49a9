"""The terminal commands that extensions add. A manifest names them; their code is imported when they run."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from importlib import import_module

import click

from nacre.cli.invocation import environment_of
from nacre.cli.screen.examples import with_examples
from nacre.runtime.contracts.errors import ConfigError
from nacre.runtime.extensions.installed.discovery import built_in_manifests
from nacre.runtime.extensions.installed.manifest import Manifest, TerminalCommand


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
