"""One request to one answer: a turn, a flush, a summary or a name. Pure; never raises for any text.

Which step of a turn it is stands in the transcript: a call that was made since the person spoke is done.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from datetime import date
from itertools import islice

from nacre.runtime.contracts.model import ModelRequest
from nacre.runtime.contracts.silence import SILENT_TOKEN
from nacre.runtime.models.offline import answers, recall
from nacre.runtime.models.offline.answers import Answer
from nacre.runtime.models.offline.intent import Intent, finder_for, is_question, read_intent
from nacre.runtime.models.offline.notes import Known
from nacre.runtime.models.offline.reading import DAILY_LOG, Reading, read_request, todays_log
from nacre.runtime.models.offline.sentences import clipped, own_words, sentences
from nacre.runtime.models.offline.summary import flush_notes, slug_of, summary_of
from nacre.sessions.contracts.messages import ToolCall

APPEND, SEARCH = "append", "memory_search"
MAX_CONFIRMED_CHARS = 300

_NOT_PRIVATE = re.compile(r"\bChat: (?!direct\b)\S")
_LIST_ITEM = re.compile(r"(?:[-*+]|\d{1,3}[.)])\s")


def respond(request: ModelRequest, *, clock_date: date, count_tokens: Callable[[str], int]) -> Answer:
    """The answer to a request; `clock_date` counts when the request does not say what day it is."""
    if request.purpose == "compaction":
        return Answer(text=summary_of(request, count_tokens=count_tokens))
    if request.purpose == "slug":
        return Answer(text=slug_of(request))
    reading, log = read_request(request), todays_log(request, clock_date=clock_date)
    tools = {tool.name for tool in request.tools}
    if request.purpose == "flush":
        can_write = APPEND in tools and not reading.finished_call(APPEND)
        notes = flush_notes(request, reading.said, count_tokens=count_tokens) if can_write else ""
        named = DAILY_LOG.search(reading.ask)
        call = _call(APPEND, path=named.group() if named else log, text=notes)
        return Answer(calls=[call]) if notes else Answer(text=SILENT_TOKEN)
    # Nobody else's chat writes into the owner's log.
    is_private = not _NOT_PRIVATE.search(request.system.changing)
    intent = _intent(reading)
    if calls := _calls(reading, intent, log, tools if is_private else tools - {APPEND}):
        return Answer(calls=calls)
    parts = [*_about_keeping(reading, intent), *_about_question(reading, intent)]
    return Answer(text="\n\n".join(parts) or _otherwise(reading, intent, is_private=is_private))


def _intent(reading: Reading) -> Intent:
    """What the last message wants; what "remember that" points to is the message before."""
    intent = read_intent(reading.ask)
    if intent.to_keep or not intent.asked_to_keep or not (earlier := _message_before(reading)):
        return intent
    told = " ".join(part for part in sentences(earlier[0]) if not is_question(part))
    return replace(intent, to_keep=told or earlier[0])


def _message_before(reading: Reading) -> list[str]:
    """The last message of a person before the one that is answered, if there is one."""
    newest = (part for part in reversed(reading.said) if part.speaker == "user" and part.sentences)
    return [own_words(part.text).strip() for part in islice(newest, 1)]


def _calls(reading: Reading, intent: Intent, log: str, tools: set[str]) -> list[ToolCall]:
    calls: list[ToolCall] = []
    if intent.to_keep and APPEND in tools and not reading.finished_call(APPEND):
        calls.append(_call(APPEND, path=log, text=_bullet(intent.to_keep)))
    if intent.question and SEARCH in tools and not reading.finished_call(SEARCH):
        calls.append(_call(SEARCH, query=recall.search_query(intent.question, _message_before(reading))))
    return calls


def _call(tool_name: str, **arguments: str) -> ToolCall:
    return ToolCall(id="", name=tool_name, arguments=arguments)


def _about_keeping(reading: Reading, intent: Intent) -> list[str]:
    done = reading.finished_call(APPEND)
    if not intent.to_keep:
        return [answers.NOTHING_TO_KEEP] if intent.asked_to_keep else []
    if done is None:
        return [answers.NOT_KEPT_HERE] if intent.asked_to_keep else []
    if done.failed:
        return [answers.NOT_WRITTEN.format(problem=clipped(done.text, MAX_CONFIRMED_CHARS))]
    named = DAILY_LOG.search(done.text)
    path = named.group() if named else str(done.call.arguments.get("path") or "")
    stood_there = done.text.lower().startswith(("nothing new", "nothing was added"))
    sentence = answers.ALREADY_WRITTEN if stood_there else answers.WROTE_DOWN
    return [sentence.format(path=path, text=clipped(intent.to_keep, MAX_CONFIRMED_CHARS))]


def _about_question(reading: Reading, intent: Intent) -> list[str]:
    """Quotes of the notes, then of the conversation, or that there are none."""
    if not intent.question:
        return []
    finder, searched = finder_for(intent.question), reading.finished_call(SEARCH)
    result = searched.text if searched and not searched.failed else ""
    told = recall.told_in(result)
    passages = recall.best_passages(recall.hits_in(result), finder)
    is_near = bool(passages and not passages[0].matched)
    asks = bool(passages and passages[0].asks)
    here = recall.said_before(reading.said, finder, Known(passage.text for passage in passages))
    parts: list[str] = []
    if searched and searched.failed:
        parts.append(answers.SEARCH_FAILED.format(problem=clipped(searched.text, MAX_CONFIRMED_CHARS)))
    elif told.get("disabled"):
        parts.append(answers.SEARCH_DISABLED.format(problem=told.get("error")))
    nothing = answers.NOTHING_SAID_HERE if parts else answers.NOTHING_FOUND
    is_quoted = bool(passages) and not ((is_near or asks) and here)
    if is_quoted:
        cites = told.get("citations") != "off"
        parts.append(answers.FOUND_NEAR if is_near else answers.ASKED if asks else answers.FOUND)
        parts += [recall.quoted(part.text, part.place if cites else "") for part in passages]
    if here:
        parts += [answers.SAID, *map(recall.quoted, here)]
    if passages or here:
        parts.append(answers.STALE_QUOTES if is_quoted and told.get("stale") else answers.QUOTES_ONLY)
    else:
        parts.append(nothing if searched else answers.NOTHING_FOUND_HERE)
        parts += [answers.NOTHING_FOUND_YET] if told.get("stale") else []
    degraded = told.get("degraded")
    return [*parts, answers.SEARCH_DEGRADED.format(problem=degraded)] if degraded else parts


def _otherwise(reading: Reading, intent: Intent, *, is_private: bool) -> str:
    if intent.small_talk:
        return answers.SMALL_TALK[intent.small_talk]
    if not reading.ask:
        return answers.CANNOT_SEE_IMAGES if reading.has_image else answers.ABOUT
    if not is_private:
        return answers.NOT_UNDERSTOOD_HERE
    told_before = any(said.speaker == "assistant" and answers.ABOUT in said.text for said in reading.said)
    return f"{answers.NOT_UNDERSTOOD}\n\n{answers.CONNECT_A_MODEL if told_before else answers.ABOUT}"


def _bullet(text: str) -> str:
    first, *rest = text.strip().splitlines()
    if _LIST_ITEM.match(first):
        return text.strip()
    return "\n".join([f"- {first.strip()}", *(f"  {line.rstrip()}" if line.strip() else "" for line in rest)])
