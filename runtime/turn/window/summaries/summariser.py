"""Reads a history through one model, part by part, and gives its summary. Stores nothing itself.

Each part is read with the summary of those before it. What is done is remembered as it is done, so
that an attempt that breaks off in the tenth part begins the next time with the tenth.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence

from nacre.prompts import render
from nacre.records.record import Record
from nacre.runtime.contracts.errors import BadModelReply, ContextOverflow, ModelUnavailable
from nacre.runtime.contracts.model import Ask, ModelRequest, SystemPrompt
from nacre.runtime.contracts.silence import without_token
from nacre.runtime.turn.window.summaries.audit import Defect, main_writing, summary_defect
from nacre.runtime.turn.window.summaries.pieces import Piece, cut_text, digests, end_of_part, pieces_of
from nacre.sessions.compaction.cut import CompactionPlan
from nacre.sessions.compaction.facts import with_facts
from nacre.sessions.contracts.messages import AssistantMessage, UserMessage, message_text, user_message

WORDS_PER_TOKEN = 0.6
"""English prose has about 0.75 words a token; less is asked for, so that an answer is not cut off."""

MAX_SMALLER_PARTS = 2
"""How often the parts are halved when a model calls one too long or does not come to its end."""

EARLIER_LABEL = "[Summary of what came before]: "


class SummaryTimedOut(ModelUnavailable):
    """A model did not finish the summary of one part within `compaction.timeoutSeconds`."""


class SummaryLimits(Record):
    """`part_tokens` bounds one request's conversation, `summary_tokens` and `timeout_seconds` one answer."""

    part_tokens: int
    summary_tokens: int
    timeout_seconds: float


class PartialSummaries(Record):
    """Summaries of the beginning of a history: `known` ones by digest, and where to `remember` new ones."""

    known: Mapping[str, str]
    remember: Callable[[str, str], Awaitable[None]]


class Summariser:
    """One model that is asked for a summary. `instructions` go into every request."""

    def __init__(
        self,
        *,
        ask: Ask,
        limits: SummaryLimits,
        instructions: str,
        count_tokens: Callable[[str], int],
        now_ms: Callable[[], int],
        partial: PartialSummaries,
    ) -> None:
        self._ask = ask
        self._limits = limits
        self._instructions = instructions
        self._count_tokens = count_tokens
        self._now_ms = now_ms
        self._partial = partial
        self._part_tokens = limits.part_tokens
        self._smaller_parts = 0
        self._writing: str | None = None

    async def summarise(self, plan: CompactionPlan) -> str:
        """The summary of what a plan takes out of the view, with the plan's facts below it.

        Raises:
            ModelError: the model could not be asked, did not finish, or its answer is no summary.
        """
        # Counting megabytes takes seconds, in which other sessions want their turns.
        previous, history, prefix = await asyncio.to_thread(self._read, plan)
        summary = await self._staged(previous, history, is_last=not prefix)
        if prefix:
            summary = await self._with_prefix(summary, prefix)
        return with_facts(summary, plan.facts)

    def _read(self, plan: CompactionPlan) -> tuple[str, list[Piece], list[Piece]]:
        """The summary to begin with, the pieces of the history, and those of the cut turn's beginning."""
        most, count = self._part_tokens, self._count_tokens
        asked = [message_text(part) for part in plan.to_summarise if isinstance(part, UserMessage)]
        # The owner may have asked for a language of their own.
        self._writing = None if self._instructions else main_writing("\n".join(asked))
        previous = plan.previous_summary or ""
        history = pieces_of(plan.to_summarise, most_tokens=most, count_tokens=count)
        prefix = pieces_of(plan.turn_prefix, most_tokens=most, count_tokens=count)
        if count(previous) > max(2 * self._limits.summary_tokens, most // 4):
            # Another program's summary, or an older one with a larger budget: it is distilled like the rest.
            history = [*cut_text(EARLIER_LABEL + previous, most_tokens=most, count_tokens=count), *history]
            previous = ""
        # A beginning too long for one request is history as well, but for its end.
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
        names = digests(f"{self._instructions}\n{summary}", pieces)
        begun_with = summary
        done = max((place for place, name in enumerate(names) if name in self._partial.known), default=0)
        summary = self._partial.known.get(names[done], summary)
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
                names = digests(f"{self._instructions}\n{begun_with}", pieces)
                continue
            done = end
            if done < len(pieces) or not is_last:
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
        """One answer; a second try where something is wrong with the first.

        Raises:
            ModelError: see `summarise`.
        """
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
            summary_tokens=self._limits.summary_tokens,
        )

    def _max_words(self) -> str:
        return str(int(self._limits.summary_tokens * WORDS_PER_TOKEN))


def _joined(pieces: Sequence[Piece]) -> str:
    return "\n\n".join(piece.text for piece in pieces)
