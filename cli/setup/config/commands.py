"""The command `nacre config`: looks at the settings and changes them, in the owner's own file."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from nacre.cli.invocation import begin, environment_of, json_option, shared_options
from nacre.cli.screen.json_text import print_json
from nacre.record import Record
from nacre.runtime.settings.config import load_config, settings_file

if TYPE_CHECKING:
    from nacre.runtime.settings.keys import Key


@click.group("config")
@shared_options
def command(context: click.Context) -> None:
    """Show and change the settings.

    \b
    A key is written with dots:    agents.defaults.model.primary
    an entry of a list by its id:  'agents.list[work].model.primary'
    a name with dots in quotes:    'agents.defaults.models."openai/gpt-4.1".alias'
    """


class _File(Record):
    """The settings file, whether or not it can be used."""

    environment: Mapping[str, str]
    path: Path

    @property
    def text(self) -> str:
        from nacre.runtime.settings.disk.settings_file import read_text

        return read_text(self.path)

    @property
    def raw(self) -> Mapping[str, Any]:
        """Its values as they are written, with `${NAME}` as it stands."""
        from nacre.runtime.settings.disk.settings_file import settings_as_written

        return settings_as_written(self.path)


def _file(context: click.Context) -> _File:
    environment = environment_of(context)
    return _File(environment=environment, path=settings_file(environment))


@command.command("get")
@click.argument("key", default="")
@json_option()
@shared_options
def get(context: click.Context, key: str, as_json: bool) -> int:
    """Print the value that holds for KEY, or all that differs from the defaults.

    Keys, tokens and passwords are not shown.

    \b
    Examples:
      nacre config get agents.defaults.model.primary
      nacre --agent work config get agents.defaults.userTimezone
    """
    from nacre.cli.setup.config.explained import value_of
    from nacre.runtime.settings.keys import hidden

    invocation, file = begin(context), _file(context)
    if not key:
        return print_json(hidden(file.raw))
    value = value_of(_key(key, file), invocation.config, file.raw)
    if as_json or not isinstance(value, str):
        return print_json(value)
    invocation.say(value)
    return 0


@command.command("set")
@click.argument("key")
@click.argument("value")
@json_option()
@shared_options
def set_(context: click.Context, key: str, value: str, as_json: bool) -> int:
    """Write VALUE at KEY into the settings file. Comments and order stay.

    VALUE is JSON5, and plain text where it is none. What Nacre could not start with is refused.

    \b
    Examples:
      nacre config set agents.defaults.model.primary ollama/qwen3
      nacre config set memory.bank.enabled true
      nacre config set 'agents.list[0]' '{id: "work"}'
    """
    from nacre.cli.setup.config.changing import set_value
    from nacre.runtime.settings.keys import field_of, written_key
    from nacre.runtime.settings.settings import Settings

    file = _file(context)
    found = _key(key, file)
    field_of(found, Settings)
    notices = set_value(file.path, file.environment, found, value)
    return _told(context, f"{written_key(found)} is set in {{}}.", notices, as_json=as_json)


@command.command("unset")
@click.argument("key")
@json_option()
@shared_options
def unset(context: click.Context, key: str, as_json: bool) -> int:
    """Take KEY out of the settings file, so that its default holds."""
    from nacre.cli.setup.config.changing import unset as taken_out
    from nacre.runtime.settings.keys import at, written_key

    file = _file(context)
    found = _key(key, file)
    if at(file.raw, found) is None:
        told = f"{written_key(found)} does not stand in {{}}."
        return _told(context, told, (), as_json=as_json, is_changed=False)
    notices = taken_out(file.path, file.environment, found)
    return _told(context, f"{written_key(found)} is out of {{}}.", notices, as_json=as_json)


@command.command("explain")
@click.argument("key")
@json_option()
@shared_options
def explain(context: click.Context, key: str, as_json: bool) -> int:
    """Say what KEY is for, what holds, and where that comes from."""
    from nacre.cli.setup.config.explained import explained

    invocation, file = begin(context), _file(context)
    told = explained(_key(key, file), invocation.config, text=file.text, raw=file.raw, file=file.path)
    if as_json:
        return print_json(told)
    invocation.say(f"{told['key']} = {json.dumps(told['value'], ensure_ascii=False)}")
    invocation.say(f"  from     {told['from'].replace(str(file.path), invocation.short(file.path))}")
    invocation.say(f"  default  {json.dumps(told['default'], ensure_ascii=False)}")
    if told["type"]:
        invocation.say(f"  type     {told['type']}")
    invocation.say(f"  counts   {told['counts']}")
    if told["meaning"]:
        invocation.say("", told["meaning"])
    for name, meaning in told["below"].items():
        invocation.say("", f"{told['key']}.{name}: {meaning}")
    return 0


@command.command("check")
@json_option()
@shared_options
def check(context: click.Context, as_json: bool) -> int:
    """Say whether Nacre can start with these settings, what it would leave out, and what it does not read.

    Exit code 0 when all of it can be used, 1 when a part is left out, 2 when Nacre cannot start.
    """
    from nacre.cli.setup.config.left_out import parts_left_out
    from nacre.runtime.contracts.errors import ConfigError

    file = _file(context)
    try:
        config = load_config(file.environment)
    except ConfigError as error:
        if not as_json:
            raise
        print_json({"ok": False, "problem": str(error), "notices": []})
        return 2
    left_out = parts_left_out(config)
    notices = (*left_out, *(each for each in config.notices if each not in left_out))
    if as_json:
        print_json({"ok": not left_out, "problem": " ".join(left_out) or None, "notices": list(notices)})
        return 1 if left_out else 0
    told = "{} can be used, but not all of it." if left_out else "{} can be used."
    _told(context, told if file.text else "{} is not there; all defaults hold.", notices)
    return 1 if left_out else 0


@command.command("schema")
@shared_options
def schema(_context: click.Context) -> int:
    """Print a JSON Schema of the settings, for editors that complete and check them."""
    from nacre.runtime.settings.meanings import schema as made

    return print_json(made())


@command.command("edit")
@shared_options
def edit(context: click.Context) -> int:
    """Open the settings in $VISUAL or $EDITOR, and check them before they count.

    Without a file it begins with a commented example. What Nacre could not start with is not
    written: it can be edited again, or is kept beside the file.
    """
    from nacre.cli.setup.config.editing import edited

    file = _file(context)
    notices = edited(file.path, file.environment)
    if notices is None:
        return _told(context, "Nothing was changed in {}.", ())
    return _told(context, "{} is written.", notices)


@command.command("path")
@shared_options
def path(context: click.Context) -> int:
    """Print where the settings file is."""
    click.echo(_file(context).path)
    return 0


def _key(text: str, file: _File) -> Key:
    from nacre.runtime.settings.keys import key_of

    return key_of(text, file.raw)


def _told(
    context: click.Context,
    sentence: str,
    notices: tuple[str, ...],
    *,
    as_json: bool = False,
    is_changed: bool = True,
) -> int:
    import sys

    from nacre.cli.screen.screen import screen_on

    file = _file(context)
    if as_json:
        return print_json({"changed": is_changed, "file": str(file.path), "notices": list(notices)})
    home = Path(file.environment.get("HOME") or Path.home())
    shown = f"~/{file.path.relative_to(home)}" if file.path.is_relative_to(home) else str(file.path)
    screen_on(sys.stdout, file.environment).line(sentence.format(shown))
    for notice in notices:
        screen_on(sys.stderr, file.environment).line(notice, "warning")
    return 0
