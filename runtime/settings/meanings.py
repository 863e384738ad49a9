"""What each setting is for, in the words that stand below it in its section; all settings as a JSON Schema.

Reads the sections' own source: pydantic would do so for every class, at every start.
"""

from __future__ import annotations

import ast
import inspect
import re
import textwrap
from collections.abc import Mapping
from functools import cache
from typing import Any

from pydantic import BaseModel

from nacre.runtime.settings.keys import Field, section_below
from nacre.runtime.settings.sections.section import written_name
from nacre.runtime.settings.settings import Settings

_LINK = re.compile(r"\[([^\]]+)\]\((\w+\.md)[^)]*\)")


def meaning_of(found: Field) -> str:
    """What a setting is for, in the words that stand below it in its section; links lead from `docs/`."""
    for kind in found.section.__mro__:
        if issubclass(kind, BaseModel) and kind is not BaseModel:
            for name in found.section.model_fields:
                if found.info is found.section.model_fields[name] and name in (told := _meanings(kind)):
                    return told[name]
    return ""


def without_links(words: str) -> str:
    """The words with the page after each link, for where a link cannot be followed."""
    return _LINK.sub(lambda link: f"{link[1]} (docs/{link[2]})", " ".join(words.split()))


def schema() -> dict[str, Any]:
    """All settings as a JSON Schema, for editors that complete and check `nacre.json5`."""
    made = Settings.model_json_schema(by_alias=True, mode="validation")
    sections = {kind.__name__: kind for kind in _sections(Settings, set())}
    for name, definition in (*made.get("$defs", {}).items(), ("Settings", made)):
        kind = sections.get(name)
        told = {_name(kind, field): text for field, text in _all_meanings(kind).items()} if kind else {}
        for written, about in definition.get("properties", {}).items():
            if text := told.get(written):
                about["description"] = without_links(text)
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **made, "title": "nacre.json5"}


def _sections(kind: type[BaseModel], seen: set[type[BaseModel]]) -> set[type[BaseModel]]:
    if kind not in seen:
        seen.add(kind)
        for info in kind.model_fields.values():
            if below := section_below(info.annotation):
                _sections(below, seen)
    return seen


def _all_meanings(kind: type[BaseModel]) -> dict[str, str]:
    told: dict[str, str] = {}
    for base in reversed(kind.__mro__):
        if issubclass(base, BaseModel) and base is not BaseModel:
            told |= _meanings(base)
    return told


@cache
def _meanings(kind: type[BaseModel]) -> Mapping[str, str]:
    """The text below each field of a class; without its source there is none."""
    try:
        [body] = ast.parse(textwrap.dedent(inspect.getsource(kind))).body
    except (OSError, TypeError, SyntaxError):
        return {}
    assert isinstance(body, ast.ClassDef)
    told = {}
    for item, below in zip(body.body, body.body[1:], strict=False):
        match item, below:
            case ast.AnnAssign(target=ast.Name(id=name)), ast.Expr(value=ast.Constant(value=str(text))):
                told[name] = inspect.cleandoc(text)
    return told


def _name(kind: type[BaseModel], field: str) -> str:
    return written_name(kind, field) if field in kind.model_fields else field
