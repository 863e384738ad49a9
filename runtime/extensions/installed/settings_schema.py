"""Validates an extension's settings against its manifest's JSON schema, with bounds on the cost."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import count
from typing import Any

MOST_STEPS = 5_000
"""The most keywords that one validation evaluates."""
MOST_MATCHED_CHARS = 1_000
"""A longer text is not matched against an extension's `pattern`."""
_UNBOUNDED = frozenset({"patternProperties", "unevaluatedItems", "unevaluatedProperties"})
"""Keywords that are not checked: they match regular expressions, or jsonschema evaluates them in one step."""
_MOST_PATTERN_CHARS = 200
_MOST_REPEATS = 2
_REPEATS = re.compile(r"[*+?{]")


def settings_problems(
    config: object, schema: Mapping[str, Any], *, key: str, what: str = "Its configSchema"
) -> tuple[str, ...]:
    """The first five problems as sentences; empty if the settings are valid.

    `key` is the location of the settings, such as `plugins.entries.honey.config`, and `what` the schema's
    name. Sentences contain keys and rules but never a value, which may be a secret. A `pattern` that could
    take long is not matched.
    """
    if problem := schema_problem(schema, what=what):
        return (problem,)
    from referencing.jsonschema import EMPTY_REGISTRY

    try:
        # An empty registry, so that a schema that refers to a URL is not fetched.
        validator = bounded(schema, may_match=is_cheap)(schema, registry=EMPTY_REGISTRY)
        errors = list(validator.iter_errors(config))
    except Exception as error:  # noqa: BLE001 - jsonschema may raise anything for a foreign schema
        return (f"{what} cannot be used: {type(error).__name__}: {error}.",)
    return tuple(_sentence(error, key) for error in errors[:5])


def schema_problem(schema: Mapping[str, Any], *, what: str) -> str:
    """A sentence that says why it is not a JSON schema; empty if it is one."""
    # Slow to import, and only needed with extensions.
    from jsonschema import Draft202012Validator, FormatChecker, SchemaError
    from jsonschema.validators import validator_for

    try:
        # Without formats, because checking the format of `pattern` compiles it.
        validator_for(schema, default=Draft202012Validator).check_schema(
            schema, format_checker=FormatChecker(formats=())
        )
    except SchemaError as error:
        return f"{what} is not a JSON schema: {error.message}."
    except Exception as error:  # noqa: BLE001 - jsonschema may raise anything for a foreign schema
        return f"{what} cannot be used: {type(error).__name__}: {error}."
    return ""


def is_cheap(pattern: str) -> bool:
    """Whether a regular expression takes at most quadratic time: no groups, and few repeats.

    An expression that is not anchored at the beginning is tried at each position, which counts as a repeat.
    """
    if len(pattern) > _MOST_PATTERN_CHARS or "(" in pattern or re.search(r"\\\d", pattern):
        return False
    is_bound = pattern.startswith("^") and "|" not in pattern
    return len(_REPEATS.findall(pattern)) + (not is_bound) <= _MOST_REPEATS


def _sentence(error: Any, key: str) -> str:
    place = ".".join([key, *map(str, error.absolute_path)])
    match error.validator:
        case "required":
            missing = [name for name in error.validator_value if name not in error.instance]
            return f"{place} needs {_listed(missing)}."
        case "additionalProperties":
            known = sorted(error.schema.get("properties", {}))
            unknown = sorted(set(error.instance) - set(known))
            return f"{place} has unknown keys: {_listed(unknown)}. Known: {_listed(known) or 'none'}."
        case "type":
            kinds = error.validator_value
            return (
                f"{place} must be of the type {kinds if isinstance(kinds, str) else _listed(kinds, ' or ')}."
            )
        case "enum":
            return f"{place} must be one of {_listed(list(map(repr, error.validator_value)))}."
    return f"{place} does not fit its rule {error.validator}: {error.validator_value!r}."


def _listed(names: Sequence[str], between: str = ", ") -> str:
    return between.join(names)


class TooManySteps(Exception):
    """A validation exceeded `MOST_STEPS`."""


def bounded(schema: Mapping[str, Any], *, may_match: Callable[[str], bool] = lambda _pattern: False) -> Any:
    """The schema's validator for one validation, which raises `TooManySteps` after `MOST_STEPS` keywords.

    It evaluates a `pattern` only if `may_match` says that it is cheap, on texts of at most
    `MOST_MATCHED_CHARS`.
    """
    from jsonschema import Draft202012Validator
    from jsonschema.validators import extend, validator_for

    kind = validator_for(schema, default=Draft202012Validator)
    steps = count(1)

    def counting(name: str, evaluate: Callable[..., Any]) -> Callable[..., Iterator[Any]]:
        def evaluated(validator: Any, value: Any, instance: Any, there: Any) -> Iterator[Any]:
            if next(steps) > MOST_STEPS:
                raise TooManySteps(f"it takes more than {MOST_STEPS} steps")
            if name == "pattern" and (len(str(instance)) > MOST_MATCHED_CHARS or not may_match(str(value))):
                return
            # Which properties are additional depends on the patterns beside them.
            if name != "additionalProperties" or "patternProperties" not in there:
                yield from evaluate(validator, value, instance, there) or ()

        return evaluated

    keywords = {
        name: counting(name, (lambda *_: ()) if name in _UNBOUNDED else evaluate)
        for name, evaluate in kind.VALIDATORS.items()
    }
    return extend(kind, keywords)
