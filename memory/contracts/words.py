"""What a chunk can be found by, and what is asked, in words. Each store says it in its own query language.

What a store must do with text, so that `text/lexical.py` and ranking mean the same everywhere: fold case and
accents; take letters, digits, the marks that belong to them (Mn, Mc) and private-use characters (Co) as parts
of words and everything else as their borders; stem English by Porter's rules; score by BM25 with the usual
k₁ = 1.2 and b = 0.75, a field's matches counted `FIELD_WEIGHTS` times.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, NamedTuple, TypeAlias, get_args

from nacre.record import Record

Field: TypeAlias = Literal["text", "title", "parts"]


class WordFields(NamedTuple):
    """The texts under which a chunk can be found by words: what it says, what it is called, extra tokens."""

    text: str
    title: str
    parts: str


FIELDS: tuple[Field, ...] = get_args(Field)
FIELD_WEIGHTS: Mapping[Field, float] = {"text": 1.0, "title": 1.0, "parts": 0.5}
"""How much a word in each field counts."""


class Atom(NamedTuple):
    """Words that stand one after the other, in `field` or, with `None`, in any.

    A store cuts `words` as it cut the fields. With `prefix`, the last one may go on.
    """

    words: str
    field: Field | None = None
    prefix: bool = False


class MatchQuery(Record):
    """What is asked by words: `atoms`, of which any is enough, and the pieces that later stages weigh.

    `terms` are lower-case words without stop words and, for scripts without spaces, their bigrams and the
    characters that stand alone; `phrases` are the parts of the question in quotation marks; `quotation` is
    all of it when all of it stands in them, and need not be in the notes as it is. `identifiers` are what
    looks like a name of code, a hash, an issue number or a joined long number; `numbers` are those of five
    digits and more, as typed; `codes` are short letters and digits that follow each other, as one word, and
    those of one word apart, since flights, rooms and number plates are written either way. `code_forms` are
    options, calls and named arguments, lower-case. `inflected` says that the words are of a language that
    changes their ends.
    """

    atoms: tuple[Atom, ...] = ()
    terms: tuple[str, ...] = ()
    phrases: tuple[str, ...] = ()
    quotation: str = ""
    identifiers: tuple[str, ...] = ()
    numbers: tuple[str, ...] = ()
    codes: tuple[str, ...] = ()
    code_forms: tuple[str, ...] = ()
    inflected: bool = False
