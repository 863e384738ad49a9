"""Words of a question that its writing marks: proper names, and what is written as code. Pure.

Neither is said in other words: notes about Caroline call her Caroline, and `--raw-lines` is not "raw lines".
"""

from __future__ import annotations

import re

from nacre.memory.text.forms.words import ENGLISH

_CAPITAL = re.compile(r"(?<![\w'’])[A-Z][a-z]{2,}(?!\w)")
_BEGINS = re.compile(r"(?:^|[.!?:;\n])[\s\"'“”*_-]*$")
_CODE = re.compile(r"(?<![\w-])--[A-Za-z][\w-]*\w|(?<!\w)[A-Za-z_]\w+(?:\((?!s\))|=(?!=))")


def proper_names(text: str) -> tuple[str, ...]:
    """The words of an English `text` with a capital inside of a sentence, lower-case."""
    if text.islower():
        return ()
    words = (found for found in _CAPITAL.finditer(text) if not _BEGINS.search(text[: found.start()]))
    names = (found.group().lower() for found in words)
    return tuple(dict.fromkeys(name for name in names if name not in ENGLISH))


def code_forms(text: str) -> tuple[str, ...]:
    """Options, calls and named arguments as they are written, lower-case: `--raw`, `insert(`, `strict=`."""
    if "--" not in text and "(" not in text and "=" not in text:
        return ()
    return tuple(dict.fromkeys(found.lower() for found in _CODE.findall(text)))
