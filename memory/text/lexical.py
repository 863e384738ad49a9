"""What full-text search stores for a chunk, and the query for a question.

Both must agree on words (`contracts/words.py` says how stores split them), parts of identifiers, and
character n-grams of scripts without spaces. Stores fold case and accents and stem English; this file adds the
rest. Whole identifiers are tokens that begin with `WHOLE`, a private-use character, so that `#12` differs
from 12.
"""

from __future__ import annotations

import re
import string
import unicodedata
from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, TypeVar

from nacre.memory.contracts.words import Atom, MatchQuery, WordFields
from nacre.memory.text.days.day_words import DAY_WORDS
from nacre.memory.text.days.query_dates import day_phrases
from nacre.memory.text.forms.spelling import (
    LEAST_DIGITS,
    apart,
    beginning,
    codes_in,
    emoji_in,
    emoji_words,
    gram_run,
    index_grams,
    is_emoji,
    is_inflected,
    normalize,
    query_grams,
    seamed,
    spelled_out,
    without_spelling,
    written_together,
)
from nacre.memory.text.forms.words import stop_words_for

if TYPE_CHECKING:
    from nacre.memory.contracts.records import Chunk
    from nacre.memory.text.days.query_dates import DayRange

T = TypeVar("T")

LEXICAL_VERSION = "4"
"""Part of the identity of an index. Raise it when `lexical_fields` gives other texts for the same chunk."""

WHOLE = "\ue000"
MAX_TERMS = 96

# Letters and digits, with the vowel signs and accents that \w does not match.
_LETTER = r"(?:[^\W_]|[\u0300-\u036f\u0591-\u05bd\u064b-\u065f\u0670\u0900-\u0963\u0966-\u0dff])"
_WORD = re.compile(rf"{_LETTER}+(?:['’]{_LETTER}+)?")
_CODE = re.compile(r"(?<![\w-])--[A-Za-z][\w-]*\w|(?<!\w)[A-Za-z_]\w+(?:\((?!s\))|=(?!=))")
_CODE_WORD = re.compile(r"[#@$]?\w+(?:(?:[-./:@\\]|::|->)\w+)*")
_JOINT = re.compile(r"(?<=\w)(?:[-_./:\\@]|->)(?=\w)")
_ISSUE = re.compile(r"#(?<![\w&]#)(\d+)\b")
HEX = re.compile(r"(?=[0-9a-f]*\d)(?=[0-9]*[a-f])[0-9a-f]{6,40}", re.IGNORECASE)
_TOKEN = re.compile(r"\w+")
_PLAIN = re.compile(r"(?<![\w'’])[A-Za-z0-9]{2,}(?![\w'’])")
_MOST_JOINED = 24
_INNER_CASE = re.compile(r"\b[A-Za-z]*[a-z0-9][A-Z][A-Za-z0-9]*\b|\b[A-Za-z]{2,}[0-9]+[A-Za-z0-9]*\b")
_ASCII_WORDS = (string.ascii_letters + string.digits).encode()
# Compound words show in the shape of a text, with one sign per kind of character.
_CASES = bytes.maketrans(_ASCII_WORDS, b"a" * 26 + b"A" * 26 + b"a" * 10)
_KINDS = bytes.maketrans(_ASCII_WORDS, b"a" * 52 + b"1" * 10)
_BLANK = re.compile(r"\s")
_CASE_PART = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")
_HYPHENED = re.compile(r"\b([A-Za-z]{1,12})-([A-Za-z]{2,12})\b(?!-)")
_SHORT_CODE = re.compile(r"[a-z]\d{2,5}")
_LONG_NUMBER = re.compile(r"(?<![\w./:-])\d{5,}(?![\w./:-]*\w)")
_QUOTED = re.compile(
    r"""(?<!\w)['\uff07]{1,2}(?=\S)(?!\d0s)([^"]+?)(?<=\S)['\uff07]{1,2}(?!\w)"""
    r"""|(?<!\w)[‘‚’](?=\S)([^"“”„]+?)(?<=\S)[’‘](?!\w)"""
    r"""|["\uff02]+([^"\uff02]+)["\uff02]+|“+([^“”]+)”+|[„”]+([^„“”]+)[“”]+|«+([^«»]+)»+|»([^«»]+)«"""
    r"""|‹([^‹›]+)›|›([^‹›]+)‹|「([^「」]+)」|『([^『』]+)』|〝([^〝〞〟]+)[〞〟]|`+([^`]+)`+"""
)
"""Text between quotation marks of any language; an apostrophe inside a word is not one."""
_AROUND = " \t\n.,;:!?…。！？؟¿¡"
_WEEKDAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
_MONTHS = tuple(
    "january february march april may june july august september october november december".split()
)


def lexical_fields(chunk: Chunk) -> WordFields:
    title_pieces = [chunk.path.rsplit("/", 1)[-1].rsplit(".", 1)[0], *chunk.heading_path]
    if (day := chunk.date) is not None:
        title_pieces.append(f"{day.isoformat()} {_WEEKDAYS[day.weekday()]} {_MONTHS[day.month - 1]}")
    text = seamed(normalize(chunk.text))
    title = seamed(normalize(" ".join(title_pieces)))
    return WordFields(text, title, " ".join(_index_parts(f"{title}\n{text}")))


def _index_parts(text: str) -> Iterator[str]:
    if "#" in text:
        for number in _ISSUE.findall(text):
            yield WHOLE + number
    for piece in _compound_pieces(text):
        for word in _TOKEN.findall(piece):
            if _INNER_CASE.fullmatch(word):
                yield from _case_parts(word)
        if "-" in piece:
            for left, right in _HYPHENED.findall(piece):
                yield left + right
    yield from dict.fromkeys(number for _, number in written_together(text))
    if text.isascii():
        return
    yield from index_grams(text)
    for emoji in emoji_in(text):
        yield emoji_token(emoji)
        yield from emoji_words(emoji)


def _compound_pieces(text: str) -> Iterator[str]:
    # Few pieces have a capital, a digit or a hyphen inside a word, and the shape of the text shows where in a
    # tenth of the time.
    ascii_bytes = text.encode("ascii", "replace")
    cases, kinds = ascii_bytes.translate(_CASES), ascii_bytes.translate(_KINDS)
    # The last digit and the last hyphen are found at once, and what lies behind them need not be searched.
    digits, hyphens = kinds[: kinds.rfind(b"1") + 1], kinds[: kinds.rfind(b"-") + 3]
    places = [*_places(cases, b"aA"), *_places(digits, b"aa1"), *_places(hyphens, b"a-aa")]
    end = 0
    for place in sorted(places):
        if place < end:
            continue
        start, end = place, len(text)
        while start and not text[start - 1].isspace():
            start -= 1
        if blank := _BLANK.search(text, place):
            end = blank.start()
        yield text[start:end]


def _places(shape: bytes, sign: bytes) -> Iterator[int]:
    place = shape.find(sign)
    while place >= 0:
        yield place
        place = shape.find(sign, place + 1)


def emoji_token(emoji: str) -> str:
    return f"{WHOLE}{ord(emoji):x}"


def _case_parts(word: str) -> Iterator[str]:
    for part in _CASE_PART.findall(word):
        if len(part) > 1 and not part.isdigit():
            yield part


def quotation(text: str) -> str:
    """The text of a question that is quoted as a whole; otherwise an empty string."""
    whole = text.strip(_AROUND)
    found = _QUOTED.match(whole)
    if found is None or found.end() != len(whole):
        return ""
    inner = "".join(filter(None, found.groups())).strip()
    return quotation(inner) or inner


def match_query(text: str, days: Sequence[DayRange] = ()) -> MatchQuery | None:
    """The query for a question, of which any atom suffices; `None` if nothing can match.

    A question that is quoted as a whole matches its words and prefers the exact text. Chunks of the named
    `days` match too. Atoms have no control characters, lone surrogates or double quotes.
    """
    text = "".join(char for char in text if char in "\n\t" or unicodedata.category(char)[0] != "C")
    whole = quotation(text)
    text = whole or text
    typed = {normalize(word): word for word in map(str.lower, _WORD.findall(text))}
    in_code = _code_forms(text)
    text = seamed(normalize(text))
    quoted = ("".join(groups).strip() for groups in _QUOTED.findall(text))
    phrases = _unique(phrase for phrase in quoted if _is_phrase(phrase))
    whole = seamed(normalize(whole)).strip(_AROUND) if _is_phrase(whole) else ""
    names = _unique(word for word in _CODE_WORD.findall(text) if _is_compound(word))
    words = _plain_words(text)
    grams = _unique(query_grams(text))
    numbers = list(written_together(text))
    emoji = _unique(emoji_in(text))
    codes = _unique([*codes_in(text), *(apart(word) for word in words if _SHORT_CODE.fullmatch(word))])
    inflected = is_inflected(_lower_words(text))
    atoms = _unique(
        [
            *(Atom(day, "title") for day in day_phrases(days)),
            *map(_words, (*phrases, whole) if whole else phrases),
            *(Atom(number) for _, number in numbers),
            *(atom for name in names for atom in _name_atoms(name)),
            *map(_words, words),
            *map(Atom, codes),
            *(Atom(emoji_token(one), "parts") for one in emoji),
            *(Atom(word) for one in emoji for word in emoji_words(one)),
            *(Atom(gram, "parts") for gram in grams),
            *(Atom(other) for word in words for other in spelled_out(typed.get(word, word))),
            *(_other_forms(words) if inflected else ()),
            *_joined_neighbors(text, words),
        ]
    )
    if not atoms:
        return None
    return MatchQuery(
        atoms=atoms[:MAX_TERMS],
        terms=_unique(
            [*(typed.get(term, term) for term in _terms(words, numbers)), *emoji, *_significant_grams(grams)]
        ),
        phrases=phrases,
        quotation=whole,
        identifiers=_identifiers(names, numbers),
        numbers=_unique(_LONG_NUMBER.findall(text)),
        codes=codes,
        code_forms=in_code,
        inflected=inflected,
    )


def _is_phrase(text: str) -> bool:
    return len(_WORD.findall(text)) > 1


def _terms(words: Sequence[str], numbers: Sequence[tuple[str, str]]) -> Iterator[str]:
    # A number in groups is one term, in the form without separators.
    groups = {group for written, _ in numbers for group in _TOKEN.findall(written.lower())}
    yield from (word for word in words if word not in DAY_WORDS and word not in groups)
    yield from dict(reversed(numbers)).values()


def _identifiers(names: Sequence[str], numbers: Sequence[tuple[str, str]]) -> tuple[str, ...]:
    whole = (name for name in names if not any(name in written for written, _ in numbers))
    long = (
        number
        for written, number in numbers
        if len(number) >= LEAST_DIGITS and not any(written in name for name in names)
    )
    return _unique([*filter(_is_identifier, whole), *long])


def _other_forms(words: Sequence[str]) -> Iterator[Atom]:
    for word in words:
        if stem := beginning(word):
            yield Atom(stem, prefix=True)
        yield from map(Atom, without_spelling(word))


def _joined_neighbors(text: str, words: Collection[str]) -> Iterator[Atom]:
    # The note may have "bookshelf" for "book shelf".
    for left, right in pairwise(map(str.lower, _PLAIN.findall(text))):
        both_tell = left in words and right in words and not (left.isdigit() and right.isdigit())
        if both_tell and len(left) + len(right) <= _MOST_JOINED:
            yield Atom(f"{left}{right}")


def term_atom(term: str, *, inflected: bool) -> Atom:
    if not term.isascii() and gram_run().fullmatch(term):
        return Atom(term, "parts")
    if is_emoji(term):
        return Atom(emoji_token(term), "parts")
    term = normalize(term)
    stem = beginning(term) if inflected else ""
    return Atom(stem, prefix=True) if stem else Atom(term)


def _significant_grams(grams: Sequence[str]) -> Iterator[str]:
    # Pairs, and characters that are in no pair, such as 猫 alone.
    paired = {char for gram in grams if len(gram) > 1 for char in gram}
    yield from (gram for gram in grams if len(gram) > 1 or gram not in paired)


def _plain_words(text: str) -> tuple[str, ...]:
    # Stop words only count if there is nothing else.
    pieces = _lower_words(text)
    stop_words = stop_words_for(pieces)
    return _unique(piece for piece in pieces if piece not in stop_words) or _unique(pieces)


def _lower_words(text: str) -> list[str]:
    spaced = text if text.isascii() else gram_run().sub(" ", text)
    found = [word.lower() for word in _WORD.findall(spaced)]
    found = [re.sub(r"['’]s$", "", word) for word in found]
    return [piece for word in found for piece in re.split(r"['’]", word) if piece]


def _is_compound(word: str) -> bool:
    # Stores would split these words.
    if word.startswith("#"):
        return word[1:].isdigit()
    return bool(HEX.fullmatch(word) or _INNER_CASE.fullmatch(word) or _JOINT.search(word))


def _is_identifier(word: str) -> bool:
    # Not "self-care", "and/or" or "e.g".
    if word.startswith("#") or HEX.fullmatch(word) or _INNER_CASE.fullmatch(word):
        return True
    if any(char.isdigit() for char in word) and any(char.isalpha() for char in word):
        return True
    return bool(re.search(r"_|::|->|@|\w\w\.\w\w", word)) or len(_JOINT.findall(word)) > 1


def _code_forms(text: str) -> tuple[str, ...]:
    # Such as `--raw`, `insert(`, `strict=`.
    if "--" not in text and "(" not in text and "=" not in text:
        return ()
    return _unique(found.lower() for found in _CODE.findall(text))


def whole_atoms(name: str) -> tuple[Atom, ...]:
    """The atoms for an identifier, a number or a phrase as a whole, of which any suffices."""
    if name.startswith("#") and name[1:].isdigit():
        return (Atom(WHOLE + name[1:], "parts"),)
    if HEX.fullmatch(name):
        return (Atom(name, prefix=True), *(Atom(name[:cut]) for cut in (7, 8, 10, 12) if cut < len(name)))
    return tuple(map(_words, _unique((name, _JOINT.sub("", name), apart(name)))))


def words_of(name: str) -> tuple[str, ...]:
    """The words of an identifier, a number or a phrase, as stores split them."""
    return _unique(_WORD.findall(name.replace("_", " ")))


def _name_atoms(identifier: str) -> Iterator[Atom]:
    if identifier.startswith("#") or HEX.fullmatch(identifier):
        yield from whole_atoms(identifier)
        return
    if len(_WORD.findall(identifier.replace("_", " "))) > 1:
        yield Atom(identifier)
    if " " in (written_apart := apart(identifier)):
        yield Atom(written_apart)
    if hyphened := _HYPHENED.fullmatch(identifier):
        yield Atom("".join(hyphened.groups()))
    yield from (Atom(part.lower()) for part in _case_parts(identifier) if part != identifier)


def _words(text: str) -> Atom:
    return Atom(text.replace('"', " "))


def _unique(items: Iterable[T]) -> tuple[T, ...]:
    return tuple(dict.fromkeys(items))
