"""The command `nacre config`: shows and changes the settings.

The descriptions of the settings come from the sections' docstrings. Their source is parsed on demand, because
pydantic would do so for every class at every start.
"""

from __future__ import annotations

import ast
import inspect
import json
import re
import textwrap
import types
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, Union, get_args, get_origin

import click
from pydantic import BaseModel

from nacre.cli.invocation import Voice, begin, environment_of, json_option, shared_options
from nacre.cli.nouns import Noun
from nacre.cli.screen.json_text import print_json
from nacre.record import Record
from nacre.runtime.settings.changes import is_applied_at_next_turn, is_applied_by_serve
from nacre.runtime.settings.config import (
    DATABASE_VARIABLE,
    MODEL_VARIABLE,
    WORKSPACE_VARIABLE,
    load_config,
    settings_file,
)
from nacre.runtime.settings.disk.json5_edits import outermost
from nacre.runtime.settings.keys import (
    Field,
    Key,
    at,
    default_of,
    field_of,
    hidden,
    key_of,
    plain,
    section_below,
    written_key,
)
from nacre.runtime.settings.sections.section import Written, written_name
from nacre.runtime.settings.settings import Settings

if TYPE_CHECKING:
    from nacre.runtime.settings.config import Config

_UNITS = {
    "bytes": "bytes",
    "chars": "characters",
    "days": "days",
    "hours": "hours",
    "messages": "messages",
    "minutes": "minutes",
    "ms": "milliseconds",
    "seconds": "seconds",
    "tokens": "tokens",
    "usd": "US dollars",
}
"""The unit of a number setting, by the last word of its name."""
_PLAIN = {bool: "true or false", int: "whole number", float: "number", str: "text"}
_LINK = re.compile(r"\[([^\]]+)\]\((\w+\.md)[^)]*\)")


def meaning_of(found: Field) -> str:
    """The description of a setting; links are relative to `docs/`."""
    meanings = _all_meanings(found.section)
    named = (name for name, info in found.section.model_fields.items() if info is found.info)
    return next((meanings[name] for name in named if name in meanings), "")


def without_links(words: str) -> str:
    """The text with each link's page after it, for places where links cannot be followed."""
    return _LINK.sub(lambda link: f"{link[1]} (docs/{link[2]})", " ".join(words.split()))


def kind_of(found: Field) -> str:
    """The values that a key takes, with unit and limits; empty if there is no short description."""
    if found.info is None:
        return ""
    words = _kind(found.info.annotation, found.info.metadata)
    if found.is_secret and words == "text":
        return "text, never shown"
    name, comma, limits = words.partition(", ")
    unit = _UNITS.get(_last_word(found.name), "") if name in ("whole number", "number") else ""
    return f"{name} of {unit}{comma}{limits}" if unit else words


def settings_schema() -> dict[str, Any]:
    """All settings as a JSON Schema, for editors that complete and check `nacre.json5`."""
    sections = {kind.__name__: kind for kind in _sections(Settings, set())}
    for section in sections.values():
        # Before 2.14, pydantic cannot write a default whose class is not built yet.
        section.model_rebuild()
    made = Settings.model_json_schema(by_alias=True, mode="validation")
    definitions = {**made.get("$defs", {}), "Settings": made}
    for name, kind in sections.items():
        properties = definitions.get(name, {}).get("properties", {})
        for field, text in _all_meanings(kind).items():
            written = written_name(kind, field) if field in kind.model_fields else ""
            if written in properties:
                properties[written]["description"] = without_links(text)
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **made, "title": "nacre.json5"}


def _sections(kind: type[BaseModel], seen: set[type[BaseModel]]) -> set[type[BaseModel]]:
    if kind not in seen:
        seen.add(kind)
        for info in kind.model_fields.values():
            if below := section_below(info.annotation):
                _sections(below, seen)
    return seen


def _all_meanings(kind: type[BaseModel]) -> dict[str, str]:
    found: dict[str, str] = {}
    for base in reversed(kind.__mro__):
        if issubclass(base, BaseModel) and base is not BaseModel:
            found |= _meanings(base)
    return found


@cache
def _meanings(kind: type[BaseModel]) -> Mapping[str, str]:
    """The docstrings of a class's fields; empty if its source is missing."""
    try:
        [body] = ast.parse(textwrap.dedent(inspect.getsource(kind))).body
    except (OSError, TypeError, SyntaxError):
        return {}
    assert isinstance(body, ast.ClassDef)
    found = {}
    for item, below in zip(body.body, body.body[1:], strict=False):
        match item, below:
            case ast.AnnAssign(target=ast.Name(id=name)), ast.Expr(value=ast.Constant(value=str(text))):
                found[name] = inspect.cleandoc(text)
    return found


def _kind(annotation: Any, metadata: Iterable[Any]) -> str:
    limits = list(metadata)
    if kind := next((each.kind for each in limits if isinstance(each, Written)), ""):
        return kind
    if get_origin(annotation) is Annotated:
        inner, *more = get_args(annotation)
        more = [part for each in more for part in (getattr(each, "metadata", None) or [each])]
        return _kind(inner, [*more, *limits])
    parts = [part for part in get_args(annotation) if part is not type(None)]
    if get_origin(annotation) in (Union, types.UnionType):
        return " or ".join(_kind(part, limits) for part in parts)
    if get_origin(annotation) is Literal:
        *first, last = [f"`{json.dumps(value)}`" for value in parts if value != ""]
        return f"{', '.join(first)} or {last}" if first else last
    if get_origin(annotation) is tuple:
        return f"list of {_many(_kind(parts[0], ()))}"
    if get_origin(annotation) in (Mapping, dict) or (
        isinstance(annotation, type) and issubclass(annotation, BaseModel)
    ):
        words = _kind(parts[-1], ()) if parts else ""
        return f"table of {_many(words)}" if words not in ("", "table") else "table"
    return ", ".join([_PLAIN.get(annotation, ""), *_limits(limits)]).strip(", ")


def _limits(metadata: Iterable[Any]) -> list[str]:
    words = {"gt": "above", "ge": "from", "le": "to"}
    found = [
        f"{word} {getattr(each, name)}"
        for each in metadata
        for name, word in words.items()
        if getattr(each, name, None) is not None
    ]
    return [" ".join(found)] if found else []


def _many(words: str) -> str:
    return {"text": "texts", "list of texts": "lists of texts"}.get(words, words)


def _last_word(name: str) -> str:
    """The last word of a name in camel case, in lower case. A floor counts what precedes it."""
    name = name.removesuffix("Floor")
    start = max((place for place, letter in enumerate(name) if letter.isupper()), default=0)
    return name[start:].lower()


@click.group("config", cls=Noun, noun="config")
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
        """Its values with each `${NAME}` unchanged."""
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
    """Print the value that applies for KEY, or all values of the file.

    Keys, tokens and passwords are not shown.
    """
    invocation, file = begin(context), _file(context)
    if not key:
        return print_json(hidden(file.raw))
    value = value_of(key_of(key, file.raw), invocation.config, file.raw)
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

    VALUE is JSON5, or plain text if it is not JSON5. An invalid value is refused.
    """
    from nacre.cli.setup.config.changing import set_value

    file = _file(context)
    found = key_of(key, file.raw)
    field_of(found, Settings)
    notices = set_value(file.path, file.environment, found, value)
    return _report(context, f"{written_key(found)} is set in {{}}.", notices, as_json=as_json)


@command.command("unset")
@click.argument("key")
@json_option()
@shared_options
def unset(context: click.Context, key: str, as_json: bool) -> int:
    """Remove KEY from the settings file, so that its default applies."""
    from nacre.cli.setup.config.changing import unset as unset_key

    file = _file(context)
    found = key_of(key, file.raw)
    if at(file.raw, found) is None:
        sentence = f"{written_key(found)} is not in {{}}."
        return _report(context, sentence, (), as_json=as_json, is_changed=False)
    notices = unset_key(file.path, file.environment, found)
    return _report(context, f"{written_key(found)} is removed from {{}}.", notices, as_json=as_json)


@command.command("explain")
@click.argument("key")
@json_option()
@shared_options
def explain(context: click.Context, key: str, as_json: bool) -> int:
    """Show the meaning, the value and the origin of KEY."""
    invocation, file = begin(context), _file(context)
    found = key_of(key, file.raw)
    facts = explain_key(found, invocation.config, text=file.text, raw=file.raw, file=file.path)
    if as_json:
        return print_json(facts)
    invocation.say(f"{facts['key']} = {json.dumps(facts['value'], ensure_ascii=False)}")
    invocation.say(f"  from     {facts['from'].replace(str(file.path), invocation.short(file.path))}")
    invocation.say(f"  default  {json.dumps(facts['default'], ensure_ascii=False)}")
    if facts["type"]:
        invocation.say(f"  type     {facts['type']}")
    invocation.say(f"  counts   {facts['counts']}")
    if facts["meaning"]:
        invocation.say("", facts["meaning"])
    for name, meaning in facts["below"].items():
        invocation.say("", f"{facts['key']}.{name}: {meaning}")
    return 0


@command.command("check")
@json_option()
@shared_options
def check(context: click.Context, as_json: bool) -> int:
    """Check whether Nacre can start with the settings, what it would leave out, and what it does not read.

    The exit code is 0 if everything can be used, 1 if a part is left out, 2 if Nacre cannot start.
    """
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
    sentence = "{} can be used, but not all of it." if left_out else "{} can be used."
    _report(context, sentence if file.text else "{} does not exist; all defaults apply.", notices)
    return 1 if left_out else 0


@command.command("schema")
@shared_options
def schema(_context: click.Context) -> int:
    """Print a JSON Schema of the settings, for editors that complete and check them."""
    return print_json(settings_schema())


@command.command("edit")
@shared_options
def edit(context: click.Context) -> int:
    """Open the settings in $VISUAL or $EDITOR, and check them before they count.

    Without a file it begins with a commented example. What Nacre could not start with is not
    written: it can be edit_file again, or is kept beside the file.
    """
    from nacre.cli.setup.config.changing import edit_file

    file = _file(context)
    notices = edit_file(file.path, file.environment)
    if notices is None:
        return _report(context, "Nothing was changed in {}.", ())
    return _report(context, "{} is written.", notices)


@command.command("path")
@shared_options
def path(context: click.Context) -> int:
    """Print the path of the settings file."""
    click.echo(_file(context).path)
    return 0


def _report(
    context: click.Context,
    sentence: str,
    notices: tuple[str, ...],
    *,
    as_json: bool = False,
    is_changed: bool = True,
) -> int:
    file = _file(context)
    if as_json:
        return print_json({"changed": is_changed, "file": str(file.path), "notices": list(notices)})
    voice = Voice(environment=file.environment)
    voice.say(sentence.format(voice.short(file.path)))
    voice.warn(*notices)
    return 0


_ENTRY = ("agents", "list")
_VARIABLES: Mapping[Key, str] = {
    ("agents", "defaults", "model", "primary"): MODEL_VARIABLE,
    ("agents", "defaults", "workspace"): WORKSPACE_VARIABLE,
    ("storage", "url"): DATABASE_VARIABLE,
}
"""The keys over which a variable of the environment takes precedence."""


def explain_key(key: Key, config: Config, *, text: str, raw: Mapping[str, Any], file: Path) -> dict[str, Any]:
    """The facts about a key: `key`, `value`, `default`, `type` (in words), `from` (a sentence), `counts`
    (when a change takes effect), `meaning`; for a section also `below`, the meanings of its keys.
    Secrets are hidden.

    `text` and `raw` are the file's text and values, `config` is the resulting one of an agent.

    Raises:
        ConfigError: there is no such setting.
    """
    found = field_of(key, Settings)
    default = None if found is None else default_of(found)
    value, source = _holding(key, config, text=text, raw=raw, file=file, default=default)
    section = found.below if found is not None and found.info is not None else None
    below: dict[str, str] = {}
    if section is not None:
        for name, info in section.model_fields.items():
            written = written_name(section, name)
            field = Field(section=section, name=written, info=info, below=section_below(info.annotation))
            below[written] = without_links(meaning_of(field)) or "see the keys below it"
    shown = "[hidden]" if value and found and found.is_secret else hidden(value, str(key[-1]))
    return {
        "key": written_key(key),
        "value": shown,
        "default": default,
        "type": "" if found is None else kind_of(found).replace("`", ""),
        "from": source,
        "counts": _counts(key),
        "meaning": "" if found is None or found.info is None else without_links(meaning_of(found)),
        "below": below,
    }


def value_of(key: Key, config: Config, raw: Mapping[str, Any]) -> Any:
    """The effective value of a key as plain JSON, with secrets hidden.

    Raises:
        ConfigError: there is no such setting.
    """
    return explain_key(key, config, text="", raw=raw, file=Path())["value"]


def _holding(
    key: Key, config: Config, *, text: str, raw: Mapping[str, Any], file: Path, default: Any
) -> tuple[Any, str]:
    variable = _VARIABLES.get(key, "")
    if variable and (value := config.environment.get(variable, "").strip()):
        return value, f"the environment variable {variable}"
    ids = [str(entry.get("id", "")).strip().lower() for entry in at(raw, ("agents", "list")) or ()]
    place = ids.index(config.agent_id) if config.agent_id in ids else -1
    own = ("agents", "list", place, *key[2:])
    if key[:2] == ("agents", "defaults") and at(raw, own) is not None:
        return at(plain(config.settings), key), f"{_line(text, own, file)}, for agent {config.agent_id!r}"
    written = at(raw, key)
    if written is None:
        held = at(plain(config.settings), key)
        return (default if held is None else held), "the default"
    held = at(plain(config.settings), key)
    return (written if held is None else held), _line(text, key, file)


def _counts(key: Key) -> str:
    name = ".".join(str(step) for step in (("agents", "defaults", *key[3:]) if key[:2] == _ENTRY else key))
    if is_applied_at_next_turn(name):
        return "at the next turn"
    return "in nacre serve within seconds" if is_applied_by_serve(name) else "at the next start"


def _line(text: str, key: Key, file: Path) -> str:
    shift = 0
    try:
        root = outermost(text)
        if not root.opens_with:
            raise ValueError
    except ValueError:
        root, shift = outermost(f"{{{text}\n}}"), 1
    found = root.at(key)
    return f"{file}, line {text.count(chr(10), 0, found.start - shift) + 1}" if found else str(file)


def parts_left_out(config: Config) -> tuple[str, ...]:
    """A sentence for each channel, extension or other part that cannot be used."""
    from nacre.runtime.extensions.loading import load_backend

    backend, problems = load_backend(config.settings)
    found = [*config.left_out, *_extensions(config), *problems]
    if backend is not None and (problem := backend.problem(config)):
        found.append(problem)
    if config.settings.channels:
        from nacre.bridges.channels.configured import configured_accounts

        found += configured_accounts(config.settings, state_dir=config.state_dir, home=config.home).problems
    return tuple(dict.fromkeys(found))


def _extensions(config: Config) -> Iterator[str]:
    from nacre.runtime.contracts.errors import ConfigError
    from nacre.runtime.extensions.choice import chosen, named, not_installed
    from nacre.runtime.extensions.installed.discovery import installed_extensions
    from nacre.runtime.extensions.loading import load_engine, problem_of
    from nacre.runtime.settings.sections.plugins import MEMORY_CORE, NO_MEMORY

    plugins = config.settings.plugins
    slot = plugins.slots.memory
    wanted = dict.fromkeys(named(plugins))
    if slot not in (MEMORY_CORE, NO_MEMORY):
        wanted[slot] = None
    installed = {item.id: item for item in installed_extensions()} if wanted else {}
    for name in wanted:
        item = installed.get(name)
        if item is None:
            yield not_installed(name, plugins)
            continue
        choice = chosen(name, item.manifest.kind if item.manifest else None, plugins)
        if not choice.is_on and name == slot:
            yield f"plugins.slots.memory is {name!r}, which is off: {choice.reason}. There is no memory tool."
        elif choice.is_on and (problem := problem_of(item, plugins)):
            yield f"The extension {name!r} was not loaded. {problem}"
        elif choice.is_on and name == slot:
            try:
                problem = load_engine(name, plugins).problem
            except ConfigError as error:
                problem = str(error)
            if problem:
                yield f"plugins.slots.memory is {name!r}. {problem}"
