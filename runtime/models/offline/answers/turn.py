"""One step of a turn: keep what is to be kept, look up what is asked, or say what this responder is.

Which step it is stands in the transcript: a call that was made since the person spoke is done.
"""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import date

from nacre.runtime.contracts.model import ModelRequest, ToolSpec
from nacre.runtime.models.offline.answers.recall import (
    SearchAnswer,
    best_passages,
    query_words,
    quote,
    read_search_result,
    said_before,
    search_query,
    to_read_whole,
    with_read,
)
from nacre.runtime.models.offline.reading.intent import Intent, SmallTalk, is_question, read_intent
from nacre.runtime.models.offline.reading.notes import Known, is_command
from nacre.runtime.models.offline.reading.reading import (
    DAILY_LOG,
    Finished,
    Reading,
    conversation,
    own_words,
    read_request,
    today,
    tool_named,
)
from nacre.runtime.models.offline.words import wording
from nacre.runtime.models.offline.words.answer import Answer, Call
from nacre.runtime.models.offline.words.sentences import clipped, sentences

APPEND = "append"
SEARCH = "memory_search"
GET = "memory_get"

MAX_PROBLEM_CHARS = 300
MAX_CONFIRMED_CHARS = 300
TEXT_PARAMETERS = ("text", "content")

_NOT_PRIVATE = re.compile(r"^Chat: (?!direct\b)|\bChat: (?!direct\b)\S", re.MULTILINE)

_LIST_ITEM = re.compile(r"(?:[-*+]|\d{1,3}[.)])\s")

_SMALL_TALK: dict[SmallTalk, str] = {
    "greeting": wording.GREETING,
    "thanks": wording.THANKS,
    "farewell": wording.FAREWELL,
    "about": wording.ABOUT,
    "forget": wording.FORGET,
}


def turn_answer(request: ModelRequest, *, clock_date: date) -> Answer:
    """What to say or do next; `clock_date` stands in when the request does not say what day it is."""
    reading = read_request(request)
    earlier = [
        own_words(said.text).strip()
        for said in conversation(reading.before)
        if said.speaker == "user" and not is_command(said.text)
    ]
    intent = read_intent(reading.ask)
    if intent.keep_previous:
        intent = replace(intent, to_keep=_statements(earlier[-1]) if earlier else "")
    calls = _calls(request, reading, intent, earlier, clock_date)
    if calls:
        return Answer(calls=calls)
    parts = [*_about_keeping(reading, intent), *_about_question(reading, intent)]
    return Answer(text="\n\n".join(parts) or _otherwise(request, reading, intent))


def append_call(tool: ToolSpec, path: str, text: str) -> Call:
    """A call of an `append` tool, under the parameter names that its schema has."""
    known = tool.parameters.get("properties")
    names = tuple(known) if isinstance(known, dict) else ("path", *TEXT_PARAMETERS)
    body = next((name for name in TEXT_PARAMETERS if name in names), TEXT_PARAMETERS[0])
    return Call(tool_name=tool.name, arguments={**({"path": path} if "path" in names else {}), body: text})


def _calls(
    request: ModelRequest, reading: Reading, intent: Intent, earlier: list[str], clock_date: date
) -> tuple[Call, ...]:
    calls: list[Call] = []
    append, search = tool_named(request, APPEND), tool_named(request, SEARCH)
    if intent.to_keep and append and _keeps_notes(request) and not reading.finished_call(APPEND):
        path = f"memory/{today(request, fallback=clock_date)}.md"
        calls.append(append_call(append, path, _bullet(intent.to_keep)))
    if intent.question and search and not reading.finished_call(SEARCH):
        query = search_query(intent.question, earlier)
        calls.append(Call(tool_name=SEARCH, arguments={"query": query}))
    searched = reading.finished_call(SEARCH)
    if intent.question and searched and tool_named(request, GET) and not reading.finished_call(GET):
        calls.extend(_get_calls(searched))
    return tuple(calls)


def _get_calls(searched: Finished) -> list[Call]:
    if searched.failed:
        return []
    return [
        Call(
            tool_name=GET,
            arguments={
                "path": result["path"],
                "from": result["startLine"],
                "lines": result["endLine"] - result["startLine"] + 1,
            },
        )
        for result in to_read_whole(read_search_result(searched.text).results)
        if "startLine" in result and "endLine" in result
    ]


def _statements(message: str) -> str:
    """A message without its questions, or all of it when it holds nothing else."""
    return " ".join(part for part in sentences(message) if not is_question(part)) or message


def _about_keeping(reading: Reading, intent: Intent) -> list[str]:
    if intent.keep_previous and not intent.to_keep:
        return [wording.NOTHING_TO_KEEP]
    if not intent.to_keep:
        return []
    done = reading.finished_call(APPEND)
    if done is None:
        return [wording.NOT_KEPT_HERE] if intent.asked_to_keep else []
    if done.failed:
        return [wording.not_written(_problem(done))]
    path = str(done.call.arguments.get("path") or "")
    named = DAILY_LOG.search(done.text)
    path = named.group() if named else path
    text = clipped(intent.to_keep, MAX_CONFIRMED_CHARS)
    if re.match(r"nothing (?:new|was added)", done.text, re.IGNORECASE):
        return [wording.already_written(text, path)]
    return [wording.wrote_down(text, path)]


def _about_question(reading: Reading, intent: Intent) -> list[str]:
    if not intent.question:
        return []
    wanted = query_words(intent.question)
    said = conversation(reading.before)
    searched = reading.finished_call(SEARCH)
    if searched is None:
        here = said_before(said, wanted, Known(()))
        return (
            [_from_conversation(here, near=False), wording.QUOTES_ONLY]
            if here
            else [wording.NOTHING_FOUND_HERE]
        )
    found = _found(searched)
    read = [done.text for done in reading.finished if done.call.name == GET and not done.failed]
    passages = best_passages(with_read(found.results, read), wanted)
    here = said_before(said, wanted, Known(passage.text for passage in passages))
    near = bool(passages) and passages[0].matched == 0
    if near and here:
        passages = []
    near_here = not passages and not here and not found.problem
    if near_here:
        here = said_before(said, wanted, Known(()), needed=1)
    parts = [found.problem] if found.problem else []
    if passages:
        quotes = [quote(passage.text, passage.place if found.cites else "") for passage in passages]
        parts.append(wording.quotes_from_notes(quotes, near=near))
    if here:
        parts.append(_from_conversation(here, near=near_here))
    if passages or here:
        parts.append(wording.QUOTES_ONLY)
    else:
        parts.append(wording.NOTHING_SAID_HERE if found.problem else wording.NOTHING_FOUND)
    if found.degraded is not None:
        parts.append(wording.search_degraded(found.degraded))
    return parts


def _found(searched: Finished) -> SearchAnswer:
    """The search's answer, its problem as a sentence for the person."""
    if searched.failed:
        return SearchAnswer(problem=wording.search_failed(_problem(searched)))
    found = read_search_result(searched.text)
    return found if found.problem is None else replace(found, problem=wording.search_disabled(found.problem))


def _from_conversation(quotes: list[str], *, near: bool) -> str:
    return wording.quotes_from_conversation([quote(text) for text in quotes], near=near)


def _otherwise(request: ModelRequest, reading: Reading, intent: Intent) -> str:
    if intent.small_talk is not None:
        return _SMALL_TALK[intent.small_talk]
    if not reading.ask:
        return f"{wording.CANNOT_SEE_IMAGES} {wording.ABOUT}" if reading.has_image else wording.ABOUT
    if not _keeps_notes(request):
        return wording.NOT_UNDERSTOOD_HERE
    told_before = any(
        said.speaker == "assistant" and wording.ABOUT in said.text for said in conversation(reading.before)
    )
    return f"{wording.NOT_UNDERSTOOD}\n\n{wording.CONNECT_A_MODEL if told_before else wording.ABOUT}"


def _keeps_notes(request: ModelRequest) -> bool:
    """Whether this chat is private, as the prompt says: nobody else's chat writes into the owner's log."""
    return not _NOT_PRIVATE.search(request.system.changing)


def _bullet(text: str) -> str:
    first, *rest = text.strip().splitlines() or [""]
    if _LIST_ITEM.match(first):
        return text.strip()
    return "\n".join([f"- {first.strip()}", *(f"  {line.rstrip()}" if line.strip() else "" for line in rest)])


def _problem(done: Finished) -> str:
    return clipped(done.text, MAX_PROBLEM_CHARS) or "no result came back."
