"""A conversation in pieces that fit one summary request; a call stays with its results. Pure."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence

from nacre.records.record import Record
from nacre.sessions.contracts.messages import Message, paired_results, serialise_for_summary


class Piece(Record):
    """Serialised messages that are read together, and their tokens."""

    text: str
    tokens: int


def pieces_of(
    messages: Sequence[Message], *, most_tokens: int, count_tokens: Callable[[str], int]
) -> list[Piece]:
    """The messages as pieces of at most `most_tokens`, in order.

    A message with calls and their results make one piece. Only what is too long for a request by
    itself is taken apart: first into its messages, then into the halves of a message's text.
    """
    pieces: list[Piece] = []
    for group in _groups(messages):
        text = serialise_for_summary(group)
        tokens = count_tokens(text)
        if len(group) > 1 and tokens > most_tokens:
            for message in group:
                pieces += cut_text(
                    serialise_for_summary([message]), most_tokens=most_tokens, count_tokens=count_tokens
                )
        else:
            pieces += cut_text(text, most_tokens=most_tokens, count_tokens=count_tokens)
    return pieces


def cut_text(text: str, *, most_tokens: int, count_tokens: Callable[[str], int]) -> list[Piece]:
    """The text as pieces of at most `most_tokens`, cut at line ends where that is possible."""
    if not text.strip():
        return []
    tokens = count_tokens(text)
    if tokens <= most_tokens or len(text) < 2:
        return [Piece(text=text, tokens=tokens)]
    middle = len(text) // 2
    cut = text.rfind("\n", middle // 2, middle) + 1 or middle
    return [
        piece
        for half in (text[:cut], text[cut:])
        for piece in cut_text(half, most_tokens=most_tokens, count_tokens=count_tokens)
    ]


def end_of_part(pieces: Sequence[Piece], start: int, *, most_tokens: int) -> int:
    """The end of the longest run of pieces from `start` that fits; one piece at least."""
    end, tokens = start + 1, pieces[start].tokens
    while end < len(pieces) and tokens + pieces[end].tokens < most_tokens:
        tokens += pieces[end].tokens + 1
        end += 1
    return end


def digests(begun_with: str, pieces: Sequence[Piece]) -> list[str]:
    """For 0, 1, 2 … pieces read: a name for what was read, whatever pieces the text was cut into.

    `begun_with` is what else the summary depends on.
    """
    digest = hashlib.sha256(begun_with.encode("utf-8", "surrogatepass"))
    found = [digest.hexdigest()]
    for piece in pieces:
        digest.update("".join(piece.text.split()).encode("utf-8", "surrogatepass"))
        found.append(digest.hexdigest())
    return found


def _groups(messages: Sequence[Message]) -> list[Sequence[Message]]:
    """Runs of messages that belong together: nothing between a call and its last result is left out."""
    last_result: dict[int, int] = {}
    for result, caller in paired_results(messages).items():
        last_result[caller] = max(result, last_result.get(caller, result))
    groups: list[Sequence[Message]] = []
    start = end = 0
    for index in range(len(messages)):
        if index > end:
            groups.append(messages[start : end + 1])
            start = end = index
        end = max(end, last_result.get(index, index))
    return [*groups, messages[start : end + 1]] if messages else []
