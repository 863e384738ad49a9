"""One request to one answer: a turn, a flush, a summary or a name. Pure; never raises for any text.

Which step of a turn it is stands in the transcript: a call that was made since the person spoke is done.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from datetime import date

from nacre.runtime.contracts.model import ModelRequest, ToolSpec
from nacre.runtime.contracts.silence import SILENT_TOKEN
from nacre.runtime.models.offline import answers
from nacre.runtime.models.offline.answers import Answer, Call
from nacre.runtime.models.offline.intent import Intent, is_question, read_intent
from nacre.runtime.models.offline.notes import Known
from nacre.runtime.models.offline.reading import (
    DAILY_LOG,
    Finished,
    Reading,
    own_words,
    read_request,
    todays_log,
    tool_named,
)
from nacre.runtime.models.offline.recall import (
    best_passages,
    query_words,
    quoted,
    read_search_result,
    said_before,
    search_query,
    to_read_whole,
    with_read,
)
from nacre.runtime.models.offline.sentences import clipped, sentences
from nacre.runtime.models.offline.summary import flush_notes, slug_of, summary_of

APPEND, SEARCH, GET = "append", "memory_search", "memory_get"
TEXT_PARAMETERS = ("text", "content")
MAX_CONFIRMED_CHARS = 300

_NOT_PRIVATE = re.compile(r"\bChat: (?!direct\b)\S")
_LIST_ITEM = re.compile(r"(?:[-*+]|\d{1,3}[.)])\s")


def respond(request: ModelRequest, *, clock_date: date, count_tokens: Callable[[str], int]) -> Answer:
    """What the offline responder answers to a request.

    `clock_date` is used when the request does not say what day it is.
    """
    if request.purpose == "compaction":
        return Answer(text=summary_of(request, count_tokens=count_tokens))
    if request.purpose == "slug":
        return Answer(text=slug_of(request))
    reading = read_request(request)
    if request.purpose == "flush":
        return _flush(request, reading, todays_log(request, clock_date=clock_date), count_tokens)
    intent = _intent(reading)
    calls = _calls(request, reading, intent, todays_log(request, clock_date=clock_date))
    if calls:
        return Answer(calls=calls)
    parts = [*_about_keeping(reading, intent), *_about_question(reading, intent)]
    return Answer(text="\n\n".join(parts) or _otherwise(request, reading, intent))


def _flush(request: ModelRequest, reading: Reading, log: str, count_tokens: Callable[[str], int]) -> Answer:
    """The one `append` call, or `NO_REPLY` when it was made or when nothing is worth keeping."""
    tool = tool_named(request, APPEND)
    if tool is None or reading.finished_call(APPEND) is not None:
        return Answer(text=SILENT_TOKEN)
    notes = flush_notes(
        reading.before,
        request.system.joined(),
        most_tokens=request.max_output_tokens,
        count_tokens=count_tokens,
    )
    named = DAILY_LOG.search(reading.ask)
    call = _append_call(tool, named.group() if named else log, notes)
    return Answer(calls=(call,)) if notes else Answer(text=SILENT_TOKEN)


def _intent(reading: Reading) -> Intent:
    """What the last message wants; what "remember that" points to is the message before."""
    intent = read_intent(reading.ask)
    earlier = _earlier(reading)
    if not intent.keep_previous or not earlier:
        return intent
    told = " ".join(part for part in sentences(earlier[-1]) if not is_question(part))
    return replace(intent, to_keep=told or earlier[-1])


def _earlier(reading: Reading) -> list[str]:
    said = (part for part in reading.said if part.speaker == "user" and part.sentences)
    return [own_words(part.text).strip() for part in said]


def _calls(request: ModelRequest, reading: Reading, intent: Intent, log: str) -> tuple[Call, ...]:
    calls: list[Call] = []
    append, searched = tool_named(request, APPEND), reading.finished_call(SEARCH)
    if intent.to_keep and append and _keeps_notes(request) and not reading.finished_call(APPEND):
        calls.append(_append_call(append, log, _bullet(intent.to_keep)))
    if intent.question and not searched and tool_named(request, SEARCH):
        query = search_query(intent.question, _earlier(reading))
        calls.append(Call(tool_name=SEARCH, arguments={"query": query}))
    if intent.question and searched and tool_named(request, GET) and not reading.finished_call(GET):
        for hit in to_read_whole(read_search_result(searched.text).hits):
            lines = {"path": hit.path, "from": hit.first, "lines": hit.last - hit.first + 1}
            calls.append(Call(tool_name=GET, arguments=lines))
    return tuple(calls)


def _append_call(tool: ToolSpec, path: str, text: str) -> Call:
    """A call of an `append` tool, under the parameter names that its schema has."""
    known = tool.parameters.get("properties")
    names = tuple(known) if isinstance(known, dict) else ("path", *TEXT_PARAMETERS)
    body = next((name for name in TEXT_PARAMETERS if name in names), TEXT_PARAMETERS[0])
    return Call(tool_name=tool.name, arguments={**({"path": path} if "path" in names else {}), body: text})


def _about_keeping(reading: Reading, intent: Intent) -> list[str]:
    if not intent.to_keep:
        return [answers.NOTHING_TO_KEEP] if intent.keep_previous else []
    done = reading.finished_call(APPEND)
    if done is None:
        return [answers.NOT_KEPT_HERE] if intent.asked_to_keep else []
    if done.failed:
        return [answers.NOT_WRITTEN.format(problem=_problem(done))]
    named = DAILY_LOG.search(done.text)
    path = named.group() if named else str(done.call.arguments.get("path") or "")
    stood_there = re.match(r"nothing (?:new|was added)", done.text, re.IGNORECASE)
    sentence = answers.ALREADY_WRITTEN if stood_there else answers.WROTE_DOWN
    return [sentence.format(path=path, text=clipped(intent.to_keep, MAX_CONFIRMED_CHARS))]


def _about_question(reading: Reading, intent: Intent) -> list[str]:
    """Quotes of the notes, then of the conversation; what is only near stands alone, and is called so."""
    if not intent.question:
        return []
    wanted, said = query_words(intent.question), reading.said
    searched = reading.finished_call(SEARCH)
    if searched is None:
        here = said_before(said, wanted, Known(()))
        if not here:
            return [answers.NOTHING_FOUND_HERE]
        return [answers.SAID, *map(quoted, here), answers.QUOTES_ONLY]
    found = read_search_result("" if searched.failed else searched.text)
    problem = answers.SEARCH_FAILED.format(problem=_problem(searched)) if searched.failed else ""
    if found.disabled:
        problem = answers.SEARCH_DISABLED.format(problem=found.disabled)
    read = [done.text for done in reading.finished if done.call.name == GET and not done.failed]
    passages = best_passages(with_read(found.hits, read), wanted)
    here = said_before(said, wanted, Known(passage.text for passage in passages))
    if here and passages and passages[0].matched == 0:
        passages = []
    near_here = not passages and not here and not problem
    if near_here:
        here = said_before(said, wanted, Known(()), needed=1)
    parts = [problem] if problem else []
    if passages:
        parts.append(answers.FOUND if passages[0].matched else answers.FOUND_NEAR)
        parts += [quoted(passage.text, passage.place if found.cites else "") for passage in passages]
    if here:
        parts += [answers.SAID_NEAR if near_here else answers.SAID, *map(quoted, here)]
    nothing = answers.NOTHING_SAID_HERE if problem else answers.NOTHING_FOUND
    parts.append(answers.QUOTES_ONLY if passages or here else nothing)
    return [*parts, answers.SEARCH_DEGRADED.format(problem=found.degraded)] if found.degraded else parts


def _otherwise(request: ModelRequest, reading: Reading, intent: Intent) -> str:
    if intent.small_talk:
        return answers.SMALL_TALK[intent.small_talk]
    if not reading.ask:
        return answers.CANNOT_SEE_IMAGES if reading.has_image else answers.ABOUT
    if not _keeps_notes(request):
        return answers.NOT_UNDERSTOOD_HERE
    told_before = any(said.speaker == "assistant" and answers.ABOUT in said.text for said in reading.said)
    return f"{answers.NOT_UNDERSTOOD}\n\n{answers.CONNECT_A_MODEL if told_before else answers.ABOUT}"


def _keeps_notes(request: ModelRequest) -> bool:
    """Whether this chat is private, as the prompt says: nobody else's chat writes into the owner's log."""
    return not _NOT_PRIVATE.search(request.system.changing)


def _bullet(text: str) -> str:
    first, *rest = text.strip().splitlines()
    if _LIST_ITEM.match(first):
        return text.strip()
    return "\n".join([f"- {first.strip()}", *(f"  {line.rstrip()}" if line.strip() else "" for line in rest)])


def _problem(done: Finished) -> str:
    return clipped(done.text, MAX_CONFIRMED_CHARS) or "no result came back."
