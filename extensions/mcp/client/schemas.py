"""Check the arguments of a foreign tool against the JSON schema that came with it.

The schema is the work of others, so its cost is bounded: no regular expression in it is ever run or
compiled, and a validation stops after 5,000 keywords. What is not checked here, the server checks.
"""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Iterator, Mapping
from typing import Any, ClassVar

from pydantic import model_validator

from nacre.runtime.extensions.installed.settings_schema import TooManySteps, bounded
from nacre.runtime.tools.toolbox import ToolArguments

MOST_SCHEMA_CHARS = 30_000
"""A larger schema is left out: it would be sent with each request."""
MOST_REFERENCES = 100
"""A schema with more different `$ref` is left out: each of them is resolved."""
_PROPERTY = re.compile(r"[A-Za-z0-9_.-]{1,64}")
"""Names of arguments that providers take."""


class ServerArguments(ToolArguments):
    """The arguments of one foreign tool, as they came: `values`."""

    schema_of_tool: ClassVar[Mapping[str, Any]] = {"type": "object"}
    values: dict[str, Any]

    @model_validator(mode="before")
    @classmethod
    def _fit(cls, raw: Any) -> Any:
        problem = _misfit(raw, cls.schema_of_tool)
        if problem:
            raise ValueError(problem)
        return {"values": raw}

    @classmethod
    def model_json_schema(cls, *_asked: Any, **_options: Any) -> dict[str, Any]:
        """The server's own schema."""
        return copy.deepcopy(dict(cls.schema_of_tool))


def arguments_of(schema: Mapping[str, Any]) -> type[ServerArguments]:
    """The class of arguments of a tool whose schema was found good."""
    return type("ServerArguments", (ServerArguments,), {"schema_of_tool": schema, "__module__": __name__})


def schema_problem(schema: Mapping[str, Any]) -> str:
    """Why a schema cannot be used for a tool, as a sentence; empty when it can."""
    # slow to import, and needed by those alone who have a server
    from jsonschema import Draft202012Validator, FormatChecker, SchemaError
    from jsonschema.validators import validator_for

    try:
        chars = len(json.dumps(schema))
    except (TypeError, ValueError, RecursionError):
        return "Its schema is no JSON."
    if chars > MOST_SCHEMA_CHARS:
        return f"Its schema has {chars} characters; the most are {MOST_SCHEMA_CHARS}."
    if schema.get("type") != "object":
        return "Its schema does not say that the arguments are an object."
    combined = [word for word in ("anyOf", "oneOf", "allOf") if word in schema]
    if combined:
        return f"Its schema has {combined[0]} at its top, which providers refuse."
    references = set(_references(schema))
    if len(references) > MOST_REFERENCES:
        return f"Its schema refers to {len(references)} places; the most are {MOST_REFERENCES}."
    far = next((ref for ref in sorted(references) if not ref.startswith("#")), "")
    if far:
        return f"Its schema refers to {far[:200]!r}, and nothing is fetched for a schema."
    kind = validator_for(schema, default=Draft202012Validator)
    try:
        # Without formats: the one of `pattern` compiles it.
        kind.check_schema(schema, format_checker=FormatChecker(formats=()))
    except SchemaError as error:
        return f"Its schema is no JSON schema: {error.message[:200]}."
    except Exception as error:  # noqa: BLE001 - what a schema of others can raise is jsonschema's to know
        return f"Its schema cannot be used: {type(error).__name__}: {str(error)[:200]}."
    for name in schema.get("properties", {}):
        if not _PROPERTY.fullmatch(name):
            return f"Its argument {name[:80]!r} has a name that providers refuse."
    return _unresolved(schema, references)


def _unresolved(schema: Mapping[str, Any], references: set[str]) -> str:
    from referencing import Registry
    from referencing.exceptions import Unresolvable
    from referencing.jsonschema import DRAFT202012

    resolver = Registry().resolver_with_root(DRAFT202012.create_resource(schema))
    for ref in sorted(references):
        try:
            resolver.lookup(ref)
        except Unresolvable:
            return f"Its schema refers to {ref[:200]!r}, which is not in it."
    return ""


def _references(schema: Any) -> Iterator[str]:
    waiting = [schema]
    while waiting:
        value = waiting.pop()
        if isinstance(value, Mapping):
            found = value.get("$ref")
            if isinstance(found, str):
                yield found
            waiting.extend(value.values())
        elif isinstance(value, list):
            waiting.extend(value)


def _misfit(values: Any, schema: Mapping[str, Any]) -> str:
    from referencing.jsonschema import EMPTY_REGISTRY

    try:
        # An empty registry: a schema that refers to an address must not be fetched from there.
        error = next(bounded(schema)(schema, registry=EMPTY_REGISTRY).iter_errors(values), None)
    except TooManySteps:
        return ""
    except Exception as broken:  # noqa: BLE001 - as above
        return f"The schema cannot be used: {type(broken).__name__}."
    if error is None:
        return ""
    place = ".".join(map(str, error.absolute_path))
    return f"{place}: {error.message[:300]}" if place else error.message[:300]
