"""Reads a summary request: the conversation between its tags, the summary before it, and the focus."""

from __future__ import annotations

import re
from dataclasses import dataclass

from nacre.runtime.contracts.model import ModelRequest
from nacre.runtime.models.offline.reading.reading import Said, Speaker, conversation, is_recall, is_summary
from nacre.sessions.contracts.messages import message_text

_LABEL = re.compile(
    r"^\[(User|Assistant|Assistant thinking|Assistant tool calls|Tool result)\]: ", re.MULTILINE
)
_SPEAKERS: dict[str, Speaker] = {
    "User": "user",
    "Assistant": "assistant",
    "Assistant tool calls": "calls",
    "Tool result": "result",
}
_OPEN, _CLOSE = "<conversation>", "</conversation>"
_PREVIOUS = re.compile(r"<previous-summary>(.*?)</previous-summary>", re.DOTALL)
_FOCUS = re.compile(r"^Additional focus\b[^:\n]{0,60}:[ \t]*([^\n]+)", re.MULTILINE | re.IGNORECASE)
_TURN_PREFIX_HEADING = re.compile(r"^#{0,6} ?\**Original Request\b", re.MULTILINE)


@dataclass(frozen=True, kw_only=True)
class SummaryRequest:
    """What is to be summarised; `of_turn_prefix` when it is the beginning of a turn that was cut."""

    said: tuple[Said, ...]
    previous_summary: str
    focus: str
    of_turn_prefix: bool


def read_summary_request(request: ModelRequest) -> SummaryRequest:
    """Reads the last message; without tags in it the messages before it are the conversation."""
    prompt = message_text(request.messages[-1]) if request.messages else ""
    start, end = prompt.find(_OPEN), prompt.rfind(_CLOSE)
    if 0 <= start < end:
        said = labelled(prompt[start + len(_OPEN) : end])
        instructions = prompt[:start] + prompt[end + len(_CLOSE) :]
    else:
        said = conversation(request.messages[:-1])
        instructions = prompt
    previous = _PREVIOUS.search(instructions)
    instructions = _PREVIOUS.sub("", instructions)
    focus = _FOCUS.search(instructions)
    return SummaryRequest(
        said=tuple(said),
        previous_summary=previous[1].strip() if previous else "",
        focus=focus[1].strip() if focus else "",
        of_turn_prefix=bool(_TURN_PREFIX_HEADING.search(instructions)),
    )


def labelled(text: str) -> list[Said]:
    """A serialised conversation as contributions; reasoning is left out, an unlabelled start is a result."""
    labels = list(_LABEL.finditer(text))
    if not labels:
        return [Said(speaker="result", text=text.strip())] if text.strip() else []
    said = [Said(speaker="result", text=text[: labels[0].start()].strip())]
    ends = [label.start() for label in labels[1:]] + [len(text)]
    for label, end in zip(labels, ends, strict=True):
        speaker = _SPEAKERS.get(label[1])
        words = text[label.end() : end].strip()
        if speaker == "user" and (is_summary(words) or is_recall(words)):
            speaker = "other"
        if speaker is not None:
            said.append(Said(speaker=speaker, text=words))
    return [contribution for contribution in said if contribution.text]
