"""Renders the prompt files beside it: Markdown with variables such as `{{name}}`.

Missing variables and unused values are errors.
"""

from __future__ import annotations

import re
from functools import cache
from importlib.resources import files

_NAME = re.compile(r"[a-z]+/[a-z][a-z0-9_]*")
_VARIABLE = re.compile(r"\{\{([a-z][a-z0-9_]*)\}\}")


class PromptError(Exception):
    """A prompt does not exist, or its variables and the given values do not match."""


def render(name: str, /, **values: str) -> str:
    """The text of `prompts/<name>.md` with every `{{variable}}` replaced, without its last line feed.

    A name is a folder and a file in it, such as `flush/request`. A `{{…}}` inside a value stays text.

    Raises:
        PromptError: there is no such prompt, or a variable is missing, unused or not text.
    """
    wanted, pieces = variables(name), list(_pieces(name))
    if wanted != values.keys():
        missing, unused = sorted(wanted - values.keys()), sorted(values.keys() - wanted)
        raise PromptError(
            f"The prompt {name!r} takes {sorted(wanted)}: missing {missing}, not used {unused}."
        )
    pieces[1::2] = [values[variable] for variable in pieces[1::2]]
    try:
        return "".join(pieces)
    except TypeError:
        wrong = sorted(key for key, value in values.items() if not isinstance(value, str))
        raise PromptError(f"The prompt {name!r} takes text; these values are not text: {wrong}.") from None


@cache
def variables(name: str) -> frozenset[str]:
    """The names of the variables in a prompt. Raises `PromptError` if there is no such prompt."""
    return frozenset(_pieces(name)[1::2])


def quoted(text: str) -> str:
    """`text` with `> ` before each line, so that nothing inside can look like the end of the quote."""
    return "\n".join(f"> {line}".rstrip() for line in text.splitlines())


@cache
def _pieces(name: str) -> tuple[str, ...]:
    """The text of a prompt; each second piece is the name of a variable."""
    resource = files("nacre.prompts") / f"{name}.md"
    if not _NAME.fullmatch(name) or not resource.is_file():
        raise PromptError(
            f"There is no prompt {name!r}: nacre/prompts/{name}.md is missing from this install."
        )
    return tuple(_VARIABLE.split(resource.read_text(encoding="utf-8").rstrip("\n")))
