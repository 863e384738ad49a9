"""Who wrote an e-mail, as verified by the mailbox's own server.

Two facts are needed. If either is ambiguous, the sender is unverified:

1. `From` names one address, in the plain form that all mail clients write (a subset of RFC 5322). 2. The
topmost `Authentication-Results` of the configured server (RFC 8601) has one DMARC result. It is `pass`, and
its one `header.from` equals the domain of that address.

DMARC's relaxed alignment relates `From` to what SPF and DKIM prove, and the server has checked it when it
says `pass`. `header.from` is what the server read as the domain of `From`, so only an equal domain counts.

These grammars accept less than the standards allow. A parser that repairs its input, such as the standard
library's, may read the same bytes differently than the server, and then a stranger passes for the owner.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from nacre.bridges.channels.messages import Ignored
from nacre.record import Record

MOST_HEADER_CHARS = 20_000
MOST_FROM_CHARS = 1_000
UNNAMED = "-"
"""The value of `authServer` for a server that writes no name into its results, such as Microsoft 365."""

_FIELD = re.compile(rb"([!-9;-~]+):(.*)", re.DOTALL)
_LABEL = r"[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?"
_DOMAIN = re.compile(rf"(?:{_LABEL}\.)*{_LABEL}", re.IGNORECASE)
_ATEXT = r"[A-Za-z0-9!#$%&'*+\-/=?^_`{|}~]"
_LOCAL = rf"{_ATEXT}+(?:\.{_ATEXT}+)*"
_ADDRESS = rf"(?P<local>{_LOCAL})@(?P<domain>[A-Za-z0-9.-]+)"
_NAME = rf"(?:(?:{_ATEXT}|\.)+|\"(?:[^\"\\\x00-\x1f\x7f]|\\[\"\\])*\")"
_BARE_FROM = re.compile(rf"[ \t]*{_ADDRESS}[ \t]*")
_NAMED_FROM = re.compile(rf"[ \t]*(?:{_NAME}(?:[ \t]+{_NAME})*[ \t]*)?<{_ADDRESS}>[ \t]*")

_VALUE = r"(?:\"(?:[^\"\\]|\\.)*\"(?:@[^\s;\"()=]+)?|[^\s;\"()]*)"
_KEYWORD = r"[A-Za-z][A-Za-z0-9_-]*"
_PROPERTY = rf"({_KEYWORD}(?:\.{_KEYWORD})?)=({_VALUE})"
_RESULT = re.compile(rf"\s*({_KEYWORD})(?:/1)?=({_KEYWORD})((?:\s+{_PROPERTY})*)\s*")
_PROPERTIES = re.compile(rf"\s+{_PROPERTY}")
_SERVER = re.compile(r"\s*([A-Za-z0-9._-]+)(?:\s+(\d+))?\s*")


class UnverifiedSender(Ignored):
    """The sender of an e-mail cannot be verified. The text says why."""


class _Dmarc(Record):
    """What one server says about DMARC: results, each with its values of `header.from`."""

    results: tuple[tuple[str, tuple[str, ...]], ...] = ()

    def is_pass_for(self, domain: str) -> bool:
        return [(word, tuple(map(str.lower, names))) for word, names in self.results] == [("pass", (domain,))]


def verified_sender(raw: bytes, auth_server: str, *, trust_from: bool = False) -> str:
    """The sender's address in lower case.

    `trust_from` skips the verification. `From` must be unambiguous all the same.

    Raises:
        UnverifiedSender: it is not certain who wrote the e-mail.
    """
    fields = list(_fields(raw))
    address = _from_address(fields)
    if trust_from:
        return address
    if not auth_server:
        raise UnverifiedSender("no server is configured that verifies senders")
    _check_results(fields, auth_server, address.rpartition("@")[2])
    return address


def _fields(raw: bytes) -> Iterator[tuple[str, bytes]]:
    """The header fields, with names in lower case and unfolded values. Nothing is repaired."""
    field: bytes | None = None
    for line in raw.split(b"\n"):
        line = line.removesuffix(b"\r")
        if b"\r" in line or b"\0" in line:
            raise UnverifiedSender("its header has a NUL or an invalid line end")
        if not line:
            break
        if line[:1] in b" \t":
            if field is None or not line.strip():
                raise UnverifiedSender("its header is folded in an invalid way")
            field += line
            continue
        if field is not None:
            yield _split(field)
        field = line
    if field is None:
        raise UnverifiedSender("it has no header")
    yield _split(field)


def _split(field: bytes) -> tuple[str, bytes]:
    found = _FIELD.fullmatch(field)
    if found is None:
        raise UnverifiedSender("its header has a line that is not a field")
    return found[1].decode("ascii").lower(), found[2]


def _values(fields: Sequence[tuple[str, bytes]], name: str, most_chars: int) -> list[str]:
    values = [value for each, value in fields if each == name]
    if any(len(value) > most_chars or not value.isascii() for value in values):
        raise UnverifiedSender(f"its {name} is too long or contains characters other than ASCII")
    return [value.decode("ascii") for value in values]


def _from_address(fields: Sequence[tuple[str, bytes]]) -> str:
    values = _values(fields, "from", MOST_FROM_CHARS)
    if len(values) != 1:
        raise UnverifiedSender("it has no sender, or several")
    found = _BARE_FROM.fullmatch(values[0]) or _NAMED_FROM.fullmatch(values[0])
    if found is None:
        raise UnverifiedSender("it has no sender, or several, or one in an unusual form")
    if not _DOMAIN.fullmatch(found["domain"]):
        raise UnverifiedSender("its sender's domain is invalid")
    return f"{found['local']}@{found['domain']}".lower()


def _check_results(fields: Sequence[tuple[str, bytes]], auth_server: str, domain: str) -> None:
    """Raises `UnverifiedSender` unless the server's topmost results verify a domain without contradiction."""
    values = _values(fields, "authentication-results", MOST_HEADER_CHARS)
    is_named = auth_server != UNNAMED
    found = map(_pieces, values if is_named else values[:1])
    results = [_dmarc(pieces, is_named=is_named) for pieces in found if _is_own(pieces, auth_server)]
    server = auth_server if is_named else "the mailbox's server"
    if not results or not results[0].is_pass_for(domain):
        raise UnverifiedSender(f"{server} does not verify the sender")
    if any(each.results and not each.is_pass_for(domain) for each in results[1:]):
        raise UnverifiedSender(f"{server} contradicts itself about the sender")


def _is_own(pieces: Sequence[str], auth_server: str) -> bool:
    """Whether results come from the configured server: `mx.example.org`, or `*.example.org` for all below
    it.
    """
    found = _SERVER.fullmatch(pieces[0])
    if auth_server == UNNAMED:
        return found is None
    name, own = (found[1].lower() if found else ""), auth_server.lower()
    return name.endswith(own[1:]) if own.startswith("*.") else name == own


def _dmarc(pieces: Sequence[str], *, is_named: bool) -> _Dmarc:
    if is_named:
        server = _SERVER.fullmatch(pieces[0])
        if server is None or server[2] not in (None, "1"):
            raise UnverifiedSender("the results of its own server have an unknown version")
    results: list[tuple[str, tuple[str, ...]]] = []
    found_results = pieces[1:] if is_named else pieces
    for number, piece in enumerate(found_results, 1):
        is_last = number == len(found_results)
        if piece.strip().lower() == "none" or (is_last and number > 1 and not piece.strip()):
            continue
        found = _RESULT.fullmatch(piece)
        if found is None:
            raise UnverifiedSender("the results of its own server cannot be read")
        if found[1].lower() == "dmarc":
            named = _PROPERTIES.findall(found[3])
            results.append((found[2].lower(), tuple(v for k, v in named if k.lower() == "header.from")))
    return _Dmarc(results=tuple(results))


def _pieces(value: str) -> list[str]:
    """Splits a value at its semicolons and replaces comments with spaces.

    Raises `UnverifiedSender` for unbalanced quotes and parentheses, and for quotes and backslashes in
    comments, which servers escape in different ways.
    """
    pieces: list[list[str]] = [[]]
    depth, is_quoted, is_escaped = 0, False, False
    for char in value:
        if is_quoted:
            pieces[-1].append(char)
            is_quoted = is_escaped or char != '"'
            is_escaped = char == "\\" and not is_escaped
        elif char == "\\" or (depth and char == '"') or (not depth and char == ")"):
            break
        elif char in "()":
            depth += 1 if char == "(" else -1
            pieces[-1].append(" ")
        elif char == ";" and not depth:
            pieces.append([])
        elif not depth:
            pieces[-1].append(char)
            is_quoted = char == '"'
    else:
        if not (depth or is_quoted):
            return ["".join(piece) for piece in pieces]
    raise UnverifiedSender("the results of a server cannot be read")
