"""Summarizes the history that a compaction removes from the model's view.

    the model for compactions ─► the session's model ─► an extract, if no model wrote a usable summary or the
                                                    │   window overflowed
                                                    └─► the history stays, and a notice tells the owner why

Without a summary nothing is replaced. A model reads the history in parts, each with the summary of the parts
before it. Finished parts are recorded: an attempt that fails in the tenth part resumes with the tenth.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import re
import sys
import unicodedata
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace

from nacre.prompts import render
from nacre.record import Record, paused_collector
from nacre.runtime.contracts.budget import ContextBudget
from nacre.runtime.contracts.errors import BadModelReply, ContextOverflow, ModelError, ModelUnavailable
from nacre.runtime.contracts.events import Emit
from nacre.runtime.contracts.model import Ask, ChatModel, ModelRequest, SystemPrompt
from nacre.runtime.contracts.silence import without_token
from nacre.runtime.models.failover import ModelChain
from nacre.runtime.settings.sections.agents import CompactionSettings
from nacre.sessions.compaction.cut import CompactionPlan
from nacre.sessions.compaction.facts import with_facts
from nacre.sessions.contracts.messages import (
    AssistantMessage,
    Message,
    StopReason,
    UserMessage,
    last_results,
    message_text,
    serialize_for_summary,
    user_message,
)
from nacre.sessions.entries.entries import Compaction
from nacre.sessions.stores.store import Transcript

log = logging.getLogger(__name__)


class SummaryModel(Record):
    """A model that can be asked for a summary, how to ask it, and its limits."""

    name: str
    ask: Ask
    limits: SummaryLimits


class Summary(Record):
    """A summary that may be stored. `problem` says which models failed before, and why."""

    text: str
    model_name: str
    is_extract: bool
    problem: str = ""


async def summary_of(
    plan: CompactionPlan,
    *,
    models: Sequence[SummaryModel],
    extractor: SummaryModel,
    must_shrink: bool,
    instructions: str,
    count_tokens: Callable[[str], int],
    now_ms: Callable[[], int],
    partial: PartialSummaries,
) -> Summary:
    """The summary from the first model that writes one.

    `extractor` is asked last, and only after answers that were not summaries: when a provider is
    unreachable or refuses the key, waiting is better than a poor summary. If the history `must_shrink`, a
    time-out or another overflow also leads to the extractor.

    Raises:
        ModelError: no model wrote one; the last model's failure, with the reasons of all.
    """
    # After these, asking again would very likely fail the same way.
    unusable = (BadModelReply, ContextOverflow, SummaryTimedOut) if must_shrink else BadModelReply
    problems: list[str] = []
    failures: list[ModelError] = []
    for model in (*models, extractor):
        if model is extractor and failures and not isinstance(failures[-1], unusable):
            break
        summarizer = Summarizer(
            model, instructions=instructions, count_tokens=count_tokens, now_ms=now_ms, partial=partial
        )
        try:
            text = await summarizer.summarize(plan)
        except ModelError as error:
            log.warning("no summary from %s: %s", model.name, error)
            failures.append(error)
            problems.append(f"{model.name}: {error}" if len(models) > 1 else str(error))
        else:
            return Summary(
                text=text,
                model_name=model.name,
                is_extract=model is extractor,
                problem=" ".join(problems),
            )
    last = failures[-1]
    raise type(last)(" ".join(problems), detail=last.detail) from last


def summary_models(
    chain: ModelChain,
    own: ChatModel | None,
    offline: ChatModel,
    budget: ContextBudget,
    settings: CompactionSettings,
    emit: Emit,
) -> tuple[SummaryModel, ...]:
    """The models to ask, in order: the `own` model of compactions, then those of the conversation."""
    first = chain.first.model
    limits = summary_limits(budget, settings, window_tokens=None)
    usual = SummaryModel(name=first.name, ask=chain.ask(emit), limits=limits)
    if first is offline:
        usual = replace(extractor(offline, budget, settings), ask=usual.ask)
    if own is None or own.name == first.name:
        return (usual,)
    limits = summary_limits(budget, settings, window_tokens=own.context_window_tokens)
    return (SummaryModel(name=own.name, ask=chain.asking(own, emit), limits=limits), usual)


def extractor(offline: ChatModel, budget: ContextBudget, settings: CompactionSettings) -> SummaryModel:
    """The offline responder, which extracts."""
    limits = summary_limits(budget, settings, window_tokens=None)
    # It has no window, and in parts it would extract from its own extracts.
    return SummaryModel(
        name=offline.name, ask=offline.stream, limits=replace(limits, part_tokens=sys.maxsize)
    )


def summary_limits(
    budget: ContextBudget, settings: CompactionSettings, *, window_tokens: int | None
) -> SummaryLimits:
    """The limits for a model with that window; `None` is the session's window."""
    window = window_tokens or budget.window_tokens
    summary_tokens = min(settings.max_summary_tokens or budget.summary_tokens, window // 8)
    return SummaryLimits(
        # Room for the previous and the new summary, and a fifth for the provider's different count.
        part_tokens=(window - 2 * summary_tokens) * 4 // 5,
        summary_tokens=summary_tokens,
        timeout_seconds=settings.timeout_seconds,
    )


WORDS_PER_TOKEN = 0.6
"""English prose has about 0.75 words a token; fewer are requested, so that an answer is not cut off."""

MAX_SMALLER_PARTS = 2
"""How often the parts are halved when one is too long for a model or times out."""

EARLIER_LABEL = "[Summary of what came before]: "


class SummaryTimedOut(ModelUnavailable):
    """A model did not finish the summary of one part within `compaction.timeoutSeconds`."""


class SummaryLimits(Record):
    """`part_tokens` bounds the part in a request, `summary_tokens` and `timeout_seconds` one answer."""

    part_tokens: int
    summary_tokens: int
    timeout_seconds: float


class PartialSummaries(Record):
    """Summaries of the first parts of a history: the known ones by digest, and a function to store one."""

    known: Mapping[str, str]
    remember: Callable[[str, str], Awaitable[None]]


class Summarizer:
    """Asks one model for a summary. `instructions` are part of every request."""

    def __init__(
        self,
        model: SummaryModel,
        *,
        instructions: str,
        count_tokens: Callable[[str], int],
        now_ms: Callable[[], int],
        partial: PartialSummaries,
    ) -> None:
        self._ask = model.ask
        self._limits = model.limits
        self._instructions = instructions
        self._count_tokens = count_tokens
        self._now_ms = now_ms
        self._partial = partial
        self._part_tokens = model.limits.part_tokens
        self._smaller_parts = 0
        self._writing: str | None = None

    async def summarize(self, plan: CompactionPlan) -> str:
        """The summary of the messages that a plan removes, followed by the plan's facts.

        Raises:
            ModelError: the model could not be asked, did not finish, or its answer is not a summary.
        """
        # Counting megabytes takes seconds, and other sessions must not wait.
        previous, history, prefix = await asyncio.to_thread(paused_collector()(self._read), plan)
        summary = await self._staged(previous, history, is_last=not prefix)
        if prefix:
            summary = await self._with_prefix(summary, prefix)
        return with_facts(summary, plan.facts)

    def _read(self, plan: CompactionPlan) -> tuple[str, list[Piece], list[Piece]]:
        most, count = self._part_tokens, self._count_tokens
        asked = [message_text(part) for part in plan.to_summarize if isinstance(part, UserMessage)]
        # The instructions may ask for another language.
        self._writing = None if self._instructions else main_writing("\n".join(asked))
        previous = plan.previous_summary or ""
        history = pieces_of(plan.to_summarize, most_tokens=most, count_tokens=count)
        prefix = pieces_of(plan.turn_prefix, most_tokens=most, count_tokens=count)
        if count(previous) > max(2 * self._limits.summary_tokens, most // 4):
            # A summary of another program, or with a larger budget, is summarized like the rest.
            history = [*cut_text(EARLIER_LABEL + previous, most_tokens=most, count_tokens=count), *history]
            previous = ""
        # Of a prefix that is too long for one request, all but the last part is history.
        start = 0
        while prefix and (end := end_of_part(prefix, start, most_tokens=most)) < len(prefix):
            start = end
        return previous, [*history, *prefix[:start]], prefix[start:]

    async def _with_prefix(self, history: str, prefix: Sequence[Piece]) -> str:
        conversation = _joined(prefix)
        prompt = render("compaction/turn_prefix", conversation=conversation, max_words=self._max_words())
        try:
            turn = await self._request(prompt)
        except (ContextOverflow, SummaryTimedOut):
            return await self._staged(history, list(prefix), is_last=True)
        return render("compaction/split_turn", history=history or "No prior history.", turn_prefix=turn)

    async def _staged(self, summary: str, pieces: list[Piece], *, is_last: bool) -> str:
        known, begun_with = self._partial.known, f"{self._instructions}\n{summary}"
        # Most summaries have a single part, which needs no digest.
        names = digests(begun_with, pieces) if known else []
        done = max((place for place, name in enumerate(names) if name in known), default=0)
        summary = known[names[done]] if done else summary
        while done < len(pieces):
            end = end_of_part(pieces, done, most_tokens=self._part_tokens)
            try:
                summary = await self._request(self._history_prompt(summary, _joined(pieces[done:end])))
            except (ContextOverflow, SummaryTimedOut):
                if self._smaller_parts == MAX_SMALLER_PARTS:
                    raise
                self._smaller_parts += 1
                self._part_tokens = max(1, self._part_tokens // 2)
                pieces = pieces[:done] + await asyncio.to_thread(self._cut_again, pieces[done:])
                names = []
                continue
            done = end
            if done < len(pieces) or not is_last:
                names = names or digests(begun_with, pieces)
                await self._partial.remember(names[done], summary)
        return summary

    def _cut_again(self, pieces: Sequence[Piece]) -> list[Piece]:
        return [
            smaller
            for piece in pieces
            for smaller in cut_text(
                piece.text, most_tokens=self._part_tokens, count_tokens=self._count_tokens
            )
        ]

    def _history_prompt(self, summary: str, conversation: str) -> str:
        words = self._max_words()
        if not summary:
            return render("compaction/first", conversation=conversation, max_words=words)
        return render(
            "compaction/update", previous_summary=summary, conversation=conversation, max_words=words
        )

    async def _request(self, prompt: str) -> str:
        """An answer; a defective first one is requested again. Raises `ModelError` as `summarize`."""
        if self._instructions:
            prompt += f"\n\n{render('compaction/focus', focus=self._instructions)}"
        text, defect = await self._answer(prompt)
        if defect is not None:
            correction = render("compaction/correction", problem=defect.problem, max_words=self._max_words())
            first, first_defect = text, defect
            text, defect = await self._answer(f"{prompt}\n\n{correction}")
            if defect is not None and defect.is_fatal and not first_defect.is_fatal:
                text, defect = first, first_defect
        if defect is not None and defect.is_fatal:
            raise BadModelReply(f"{defect.problem} A second try was no better.")
        return text

    async def _answer(self, prompt: str) -> tuple[str, Defect | None]:
        request = ModelRequest(
            system=SystemPrompt(stable=render("compaction/system")),
            messages=(user_message(prompt, timestamp_ms=self._now_ms()),),
            max_output_tokens=self._limits.summary_tokens,
            purpose="compaction",
        )
        seconds = self._limits.timeout_seconds
        answer: AssistantMessage | None = None
        try:
            async with asyncio.timeout(seconds) as limit:
                async for item in self._ask(request):
                    if isinstance(item, AssistantMessage):
                        answer = item
        except TimeoutError as error:
            if not limit.expired():
                raise
            raise SummaryTimedOut(
                f"The summary of one part took longer than {seconds:.15g} seconds. "
                "Choose a faster agents.defaults.compaction.model, or raise its timeoutSeconds."
            ) from error
        text = without_token(message_text(answer)).strip() if answer else ""
        return text, summary_defect(
            text,
            answer.stop_reason if answer else "stop",
            writing=self._writing,
            output_tokens=answer.usage.output_tokens if answer and answer.usage else None,
        )

    def _max_words(self) -> str:
        return str(int(self._limits.summary_tokens * WORDS_PER_TOKEN))


def _joined(pieces: Sequence[Piece]) -> str:
    return "\n\n".join(piece.text for piece in pieces)


HEADINGS = (
    "Goal|Constraints & Preferences|Progress|Key Decisions|Next Steps|Critical Context"
    "|Original Request|Early Progress|Context for Suffix"
)
"""A pattern of the headings that the prompts request, of a whole history and of the beginning of a turn."""

_MIN_LETTERS = 80
_MAX_SIGNS = 8_000
_MAIN_SHARE = 0.6
_PRESENT_SHARE = 0.15
_WRITINGS = {"CJK": "HAN", "HIRAGANA": "HAN", "KATAKANA": "HAN"}
"""Japanese mixes these scripts, so each counts for the others."""


class Defect(Record):
    """What is wrong with a summary. If it is not fatal, the summary is better than none."""

    problem: str
    is_fatal: bool


def summary_defect(
    text: str, stop_reason: StopReason, *, writing: str | None, output_tokens: int | None
) -> Defect | None:
    """The first defect of a summary of a conversation in the script `writing`, or `None`.

    Fatal: no text, an answer that was cut off, a text with none of the requested headings, such as a refusal.
    Not fatal: a summary in another script than the conversation's.
    """
    if not text:
        return Defect(problem="The summary was empty.", is_fatal=True)
    if stop_reason == "length":
        place = f" after {output_tokens} tokens" if output_tokens else ""
        return Defect(problem=f"The summary was cut off{place}.", is_fatal=True)
    if not re.search(rf"^\s*(?:#{{1,6}}\s*|\*\*)(?:{HEADINGS})", text, re.MULTILINE):
        return Defect(problem="The answer was not a summary: it had none of the headings.", is_fatal=True)
    shares = _shares(text)
    if writing is not None and shares and shares.get(writing, 0.0) < _PRESENT_SHARE:
        return Defect(problem="The summary was not in the language of the conversation.", is_fatal=False)
    return None


def main_writing(text: str) -> str | None:
    """The script of most of a text, such as `CYRILLIC`; `None` for Latin, a mixture or a few words.

    Languages that share a script are not distinguished, so an English summary of a German conversation goes
    unnoticed.
    """
    shares = _shares(text)
    found = next((name for name, share in shares.items() if share >= _MAIN_SHARE), None)
    return None if found == "LATIN" else found


def _shares(text: str) -> dict[str, float]:
    """The share of each script in the letters of a text; empty if there are too few letters."""
    sample = text[:: max(1, len(text) // _MAX_SIGNS)]
    names = [unicodedata.name(sign, "?").partition(" ")[0] for sign in sample if sign.isalpha()]
    if len(names) < _MIN_LETTERS:
        return {}
    counts = Counter(_WRITINGS.get(name, name) for name in names)
    return {name: count / len(names) for name, count in counts.items()}


PARTIAL_SUMMARY_ENTRY = "nacre.partial_summary"


def partial_summaries(journal: Transcript) -> PartialSummaries:
    """The partial summaries since the latest compaction; new ones are recorded in the journal."""

    async def remember(digest: str, summary: str) -> None:
        await journal.append_custom(PARTIAL_SUMMARY_ENTRY, {"digest": digest, "summary": summary})

    branch = journal.tree.branch() if journal.tree.customs(PARTIAL_SUMMARY_ENTRY) else ()
    known: dict[str, str] = {}
    for entry in reversed(branch):
        if isinstance(entry.body, Compaction):
            break
        data = entry.custom_data(PARTIAL_SUMMARY_ENTRY) or {}
        digest, summary = data.get("digest"), data.get("summary")
        if isinstance(digest, str) and isinstance(summary, str) and summary.strip():
            known.setdefault(digest, summary)
    return PartialSummaries(known=known, remember=remember)


class Piece(Record):
    """Serialized messages that are read together, and their tokens."""

    text: str
    tokens: int


def pieces_of(
    messages: Sequence[Message], *, most_tokens: int, count_tokens: Callable[[str], int]
) -> list[Piece]:
    """The messages as pieces of at most `most_tokens`, in order.

    If the limit is `sys.maxsize`, they are one piece, whose tokens are not counted. A message with calls and
    their results form one piece. Only a piece that is too long for a request is divided: first into its
    messages, then into halves of a message's text.
    """
    if most_tokens == sys.maxsize:
        whole = serialize_for_summary(messages)
        return [Piece(text=whole, tokens=0)] if whole.strip() else []
    pieces: list[Piece] = []
    for group in _groups(messages):
        text = serialize_for_summary(group)
        tokens = count_tokens(text)
        if tokens <= most_tokens:
            pieces += [Piece(text=text, tokens=tokens)] if text.strip() else []
            continue
        for part in map(serialize_for_summary, ([message] for message in group)):
            pieces += cut_text(part, most_tokens=most_tokens, count_tokens=count_tokens)
    return pieces


def cut_text(text: str, *, most_tokens: int, count_tokens: Callable[[str], int]) -> list[Piece]:
    """The text as pieces of at most `most_tokens`, cut at line ends if possible."""
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
    """The end of the longest run of pieces from `start` that fits; at least one piece."""
    end, tokens = start + 1, pieces[start].tokens
    while end < len(pieces) and tokens + pieces[end].tokens < most_tokens:
        tokens += pieces[end].tokens + 1
        end += 1
    return end


def digests(begun_with: str, pieces: Sequence[Piece]) -> list[str]:
    """For 0, 1, 2 … pieces: a digest of the text read so far, independent of where it is cut into pieces.

    `begun_with` is what else the summary depends on.
    """
    digest = hashlib.sha256(begun_with.encode("utf-8", "surrogatepass"))
    found = [digest.hexdigest()]
    for piece in pieces:
        digest.update("".join(piece.text.split()).encode("utf-8", "surrogatepass"))
        found.append(digest.hexdigest())
    return found


def _groups(messages: Sequence[Message]) -> list[Sequence[Message]]:
    """Runs of messages that belong together: a call and everything up to its last result."""
    last_result = last_results(messages)
    groups: list[Sequence[Message]] = []
    start = end = 0
    for index in range(len(messages)):
        if index > end:
            groups.append(messages[start : end + 1])
            start = end = index
        end = max(end, last_result.get(index, index))
    return [*groups, messages[start : end + 1]] if messages else []
