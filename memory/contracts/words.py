"""The fields by which words find a chunk, and queries by words, for every store.

For equal results everywhere, a store must fold case and accents; treat letters, digits, their marks (Mn, Mc)
and private-use characters (Co) as parts of words and everything else as separators; stem English by Porter's
rules; and score by BM25 with k₁ = 1.2 and b = 0.75, weighting fields by `FIELD_WEIGHTS`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, NamedTuple, TypeAlias, get_args

from nacre.record import Record

Field: TypeAlias = Literal["text", "title", "parts"]


class WordFields(NamedTuple):
    """The text of a chunk, its title, and extra tokens."""

    text: str
    title: str
    parts: str


FIELDS: tuple[Field, ...] = get_args(Field)
FIELD_WEIGHTS: Mapping[Field, float] = {"text": 1.0, "title": 1.0, "parts": 0.5}
"""The weight of a word in each field."""


class Atom(NamedTuple):
    """Adjacent words in `field` or, with `None`, in any field.

    A store splits `words` like the fields. With `prefix`, the last word may continue.
    """

    words: str
    field: Field | None = None
    prefix: bool = False


class MatchQuery(Record):
    """A query by words: `atoms`, any of which suffices, and the parts that later stages weigh.

    `terms` are lower-case words without stop words and, for scripts without spaces, bigrams and single
    characters. `phrases` are the parts in quotation marks; `quotation` is the whole question if all of it is
    quoted. `identifiers` look like names in code, hashes, issue numbers or joined long numbers; `numbers`
    have at least five digits. `codes` are letters followed by digits, joined if typed apart and apart if
    typed joined, because flights and number plates are written both ways. `code_forms` are lower-case
    options, calls and named arguments. With `inflected`, the language changes word endings.
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
