"""A name for a conversation: the words that its person used most. No meaning is understood."""

from __future__ import annotations

import re
import unicodedata
from collections import Counter

from nacre.memory.text.stop_words import stop_words_for
from nacre.runtime.contracts.model import ModelRequest
from nacre.runtime.models.offline.words.answer import Answer
from nacre.sessions.contracts.messages import message_text

MOST_WORDS = 2
MIN_CHARS = 3
MAX_CHARS = 14

_CONVERSATION = re.compile(r"<conversation>\n(.*)\n</conversation>", re.DOTALL)
_USER = re.compile(r"^User: (.*?)(?=^(?:User|Assistant): |\Z)", re.DOTALL | re.MULTILINE)
_WORD = re.compile(r"[^\W\d_]+")
_ASKING = frozenset(("remember", "recall", "please", "note", "tell", "know", "want", "need", "make", "think"))


def slug_answer(request: ModelRequest) -> Answer:
    """One or two words of the conversation in the order they came, joined by `-`.

    A script that has no plain letters gives no name, and neither does small talk of stop words alone.
    """
    prompt = message_text(request.messages[-1]) if request.messages else ""
    found = _CONVERSATION.search(prompt)
    said = "\n".join(match[1] for match in _USER.finditer(found[1])) if found else ""
    folded = [word.casefold() for word in _WORD.findall(said)]
    nothing = stop_words_for(folded) | _ASKING
    words = [plain for word in folded if word not in nothing and (plain := _plain(word))]
    counted = Counter(words)
    # Of words that were said equally often the longer one says more.
    most = sorted(counted, key=lambda word: (-counted[word], -len(word)))[:MOST_WORDS]
    return Answer(text="-".join(word for word in counted if word in most))


def _plain(word: str) -> str:
    """The word in plain letters, or nothing when it has none, is very short, or could not be a name."""
    plain = "".join(char for char in unicodedata.normalize("NFKD", word) if not unicodedata.combining(char))
    return plain if plain.isascii() and MIN_CHARS <= len(plain) <= MAX_CHARS else ""
