"""The messages of a transcript in the order in which the model reads them. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from nacre.sessions.contracts.messages import Message
from nacre.sessions.view.transcript import TranscriptItem


def model_messages(items: Sequence[TranscriptItem], *, is_compacted: bool) -> tuple[Message, ...]:
    """The messages of a transcript in the order the model reads them; a compacted one begins with a summary.

    Recalled logs stand at the front, behind a summary if there is one, and only the newest of them:
    they are background, not something that was just said.
    """
    summary_count = 1 if is_compacted else 0
    recalled = [item for item in items if item.is_recall]
    said = [item for item in items if not item.is_recall]
    ordered = [*said[:summary_count], *recalled[-1:], *said[summary_count:]]
    return tuple(item.message for item in ordered)
