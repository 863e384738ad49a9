"""One turn: from a message to the reply.

    write_down ─► answer ─► loop: request ─► ask ─► record ─► tools ─► request ─► … ─► reply
                                   │
                                   └─ the window makes room; logs and notes are recalled

Whatever is said is on disk before the next step begins. Then promises are kept: what the owner asked to
remember is written, and what to be reminded of comes up in time. A reminder is a line of
`memory/reminders.md`, a task with a topic, or several words for it:

    - [ ] boat, mooring: ask Ilse for the contract

The first private message that names the topic brings the line to the model, at the tail of the request, and
ticks it.
"""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from functools import cached_property, partial
from pathlib import PurePosixPath
from typing import Any

from nacre.memory.contracts.workspace import FileBusy, PathOutsideRoot
from nacre.memory.files.sources.proposed_write import WaitsForReview
from nacre.memory.workspace.workspace import REMINDERS, daily_log_path
from nacre.prompts import quoted, render
from nacre.runtime.contracts.budget import ContextBudget
from nacre.runtime.contracts.errors import (
    ConfigError,
    ContextOverflow,
    MessageRefused,
    TurnCancelled,
    TurnTimedOut,
    UsageLimitReached,
)
from nacre.runtime.contracts.events import Emit, MessageJoined, ReplyReady, Silence, Warned
from nacre.runtime.contracts.inbound import Attachment, Quoted, Reply, Trigger
from nacre.runtime.contracts.model import ModelParameters, ModelRequest, takes_images
from nacre.runtime.contracts.silence import is_silent, without_token
from nacre.runtime.hooks.hooks import around_turn, run_inbound_hooks, with_model_hooks
from nacre.runtime.models.failover import Candidate, ModelChain
from nacre.runtime.open_sessions.open_session import OpenSession
from nacre.runtime.turn.context import TurnContext, recalled
from nacre.runtime.turn.inbound_message import message_of, unread_message
from nacre.runtime.turn.loop import TurnBounds, paused, run_loop
from nacre.runtime.turn.output import OutputCheck
from nacre.runtime.turn.system_prompt import recall_is_due
from nacre.runtime.turn.turn_parts import TurnParts
from nacre.runtime.turn.window import Window
from nacre.sessions.contracts.messages import (
    AssistantMessage,
    Message,
    ToolResultMessage,
    Usage,
    UserMessage,
    message_text,
    speaker_label,
)

log = logging.getLogger(__name__)

HEADING = "## Asked to remember"
POINTS_BACK = (
    "The assistant saved no note. If it should remember something, say it in one message or use /remember."
)
MOST_CHARS = 2_000
"""A longer text is a document: its beginning says what it is, and the transcript has all of it."""

END_CHARS = 1_000
"""A request, or a claim to have kept something, stands at the beginning or the end of a long text."""

_READING = frozenset(
    ("read", "list", "memory_search", "memory_get", "memory_recall", "memory_recall_facts", "memory_forget")
)

_ASKING_STEMS = """
rememb forget mind note memo record down save store remind merk vergiss denk notier notiz schreib erinner souv
rappel oublie retien reten recuerd recué acuerd acuér olvide anota apunta cuenta lembr esqueça ricord tieni
dimentic annota onthoud ihåg запомн запиш забудь напомни 记 記 忘 备 備 提醒 覚え メモ 기억 메모 적어
"""
_ASKING = tuple(_ASKING_STEMS.split())
"""Every request to remember contains one of these; other messages are not read more closely."""
_CLAIMING_STEMS = """
rememb forget note mind saved stored recorded written added merk notier gespeichert aufgeschrieben souviendrai
retiens noté n'oublierai enregistré recordaré anotado guardado cuenta nota olvidaré lembrar anotei guardei
esquecer ricorderò dimenticherò onthouden genoteerd opgeslagen запомн запис сохранил забуду помнить 记 保存
覚え メモ 記録 忘れ 기억 메모 저장
"""
_CLAIMING = tuple(_CLAIMING_STEMS.split())
_RHETORICAL = re.compile(r"\b(?:remember|don['’]?t forget)\s*,", re.IGNORECASE)
"""Encouragement, as in "Remember, every step counts", asks for nothing."""
_CLAIMS = re.compile(
    "|".join(
        row.strip()
        for row in r"""
\bI(?:['’]ll| will| shall)(?: be sure to| definitely| certainly)? (?:remember|not forget|(?:make|take) a note)
\bI(?:['’]ll| will) keep (?:that|this|it) in mind|\bI won['’]t forget
\bI(?:['’]ve| have)(?: just| now)? (?:noted|saved|stored|remembered|recorded|made a note)
\bI(?:['’]ve| have)(?: just| now)? written (?:that|this|it) down
\bI(?:['’]ve| have)(?: just| now)? added (?:that|this|it) to (?:my|your) (?:memory|notes)
^(?:ok(?:ay)?|got it|sure|done|great|alright)?[,.!]?\s*(?:noted|saved|remembered)\b
\b(?:das |es )?merke ich mir\b|\bich (?:werde )?(?:mir |das |es ){0,2}(?:merken?|notieren?)\b
\bhabe? (?:ich )?(?:mir |das |es ){0,2}(?:notiert|gemerkt|gespeichert|aufgeschrieben)\b
^(?:notiert|gemerkt|gespeichert|anotado|guardado)\b
\bje (?:m'en souviendrai|le retiens|retiens|le note|l'ai noté|n'oublierai pas)|\bc'est (?:noté|enregistré)
\blo (?:recordaré|he anotado|he guardado|tendré en cuenta)|\btomo nota|\bno lo olvidaré
\bvou (?:me )?lembrar|\banotei|\bguardei|\bnão (?:vou )?esquecer
\bme lo ricorderò|\bho annotato|\bprendo nota|\bnon lo dimenticherò
\bik zal (?:het|dat) onthouden|\bik heb (?:het|dat) (?:genoteerd|opgeslagen)
(?:\bя |^)(?:это )?(?:запомн(?:ю|ил)|запис(?:ал|ываю)|сохранил|не забуду|буду помнить)
(?:我会?|我?已经?|好的?[,，]?)(?:帮你)?(?:记住|记下|记录|保存)|记[住下]了
覚えて(?:おき|い)ます|覚えました|メモしました|記録しました|忘れません
기억(?:하겠|할게|해 ?둘)|메모(?:했|해 ?두)|저장했
""".strip().splitlines()
    ),
    re.IGNORECASE | re.MULTILINE,
)
"""A reply that says it remembers, in eleven languages: English, German, French, Spanish, Portuguese, Italian,
Dutch, Russian, Chinese, Japanese and Korean."""


def writes(result: ToolResultMessage) -> bool:
    """Whether a tool's result may have kept something: every successful call but those that only read."""
    return not result.is_error and result.tool_name not in _READING


def promised(words: str, reply: str) -> tuple[str, bool]:
    """What is to be kept of the owner's `words`, and whether they asked for it.

    The text is empty if nothing was promised, or if what to keep was said before ("remember that"). Where
    they did not ask, the `reply` must claim to have kept something and the words must contain a fact.
    """
    asked, answered = _ends(words), _ends(reply)
    claims = _has(_CLAIMING, answered) and _CLAIMS.search(answered) is not None
    if not claims and not (_has(_ASKING, asked) and _has(_ASKING, _RHETORICAL.sub("", asked))):
        return "", False
    from nacre.runtime.models.offline.reading import read_intent  # compiles its patterns on first use

    intent = read_intent(words)
    kept = intent.to_keep[:MOST_CHARS].strip()
    return (kept, True) if intent.asked_to_keep else (kept if claims else "", False)


def _has(stems: Sequence[str], text: str) -> bool:
    folded = text.casefold()
    for stem in stems:  # noqa: SIM110 - a turn pays for each step of a generator
        if stem in folded:
            return True
    return False


def _ends(text: str) -> str:
    return text if len(text) <= 2 * END_CHARS else f"{text[:END_CHARS]}\n{text[-END_CHARS:]}"


_REMINDER = re.compile(r"\s*[-*+]\s+\[ \]\s+([^:：]{1,200}?)\s*[:：]\s*\S.*")
_TOPICS = re.compile("[,;/|，；、]")
MOST_REMINDERS = 200
"""How many open reminders a turn looks at, the newest first."""


async def due_reminders(session: OpenSession, parts: TurnParts, words: str) -> tuple[str, ...]:
    """The lines of the open reminders whose topic a private message names: all words of one of its names.

    A line that is not the owner's word does not count, nor one that could not be ticked.
    """
    path = PurePosixPath(REMINDERS)
    policy = session.policy
    if (
        not words.strip()
        or not policy.is_private
        or not policy.loads_daily_logs
        or not policy.may_write(path)
    ):
        return ()
    try:
        if (await parts.workspace.fingerprints([REMINDERS]))[REMINDERS] is None:
            return ()
        text = (await parts.workspace.read(REMINDERS)).data.decode("utf-8", "replace")
    except (OSError, PathOutsideRoot):
        return ()
    lines = [line for line in text.splitlines() if _REMINDER.fullmatch(line)][-MOST_REMINDERS:]
    due = [line for line in lines if _names_topic(words, line)]
    if not due:
        return ()
    sources = await parts.sources.of_lines(REMINDERS, due)
    return tuple(
        line
        for line, source in zip(due, sources, strict=True)
        if source is None or (source.is_owners_word and "owner" in source.said_by)
    )


def _names_topic(words: str, line: str) -> bool:
    from nacre.memory.text.evidence import Finder  # a turn without reminders needs none of it
    from nacre.memory.text.lexical import match_query

    found = _REMINDER.fullmatch(line)
    for topic in _TOPICS.split(found[1]) if found else ():
        query = match_query(topic)
        finder = Finder(query) if query is not None else None
        if finder is not None and finder.terms and len(finder.look(words).terms) == len(finder.terms):
            return True
    return False


def reminder_text(due: Sequence[str]) -> str:
    """What the model is told of reminders, at the tail of its request."""
    return render("tail/reminders", text=quoted("\n".join(due))) if due else ""


async def tick_reminders(parts: TurnParts, due: Sequence[str]) -> None:
    """Ticks reminders that the model was shown, with the day. Without a tick they come up again."""
    mark = f" ({parts.now():%Y-%m-%d})"

    def ticked(old: bytes | None) -> bytes | None:
        if old is None:
            return None
        lines = old.decode("utf-8", "surrogateescape").splitlines(keepends=True)
        for at, line in enumerate(lines):
            if (bare := line.rstrip("\r\n")) in due:
                lines[at] = f"{bare.replace('[ ]', '[x]', 1).rstrip()}{mark}{line[len(bare) :]}"
        return "".join(lines).encode("utf-8", "surrogateescape")

    with suppress(OSError, PathOutsideRoot, FileBusy):  # it is shown again
        await parts.workspace.change(REMINDERS, ticked)
        parts.on_notes(REMINDERS)


async def keep_promise(session: OpenSession, parts: TurnParts, words: str, reply: str) -> str:
    """Writes into today's log what the owner asked to remember, for a turn in which no tool wrote.

    Returns:
        One sentence for the owner, or an empty string if there was nothing to keep.
    """
    if not session.policy.is_private:
        return ""
    text, is_asked = promised(words, reply)
    if not text:
        return POINTS_BACK if is_asked else ""
    from nacre.memory.text.days.query_dates import with_dates, without_dates

    today = parts.now().date()
    path = daily_log_path(today)
    if not session.policy.may_write(PurePosixPath(path)):
        return f"The assistant saved no note of this: the settings make {path} read-only."
    workspace = session.sources(parts.sources).workspace(parts.workspace, "capture", words_of=without_dates)
    lines = [with_dates(line.strip().lstrip("-*• "), today) for line in text.splitlines()]
    try:
        if not parts.workspace.is_there:
            return ""  # the turn has told that the workspace is gone
        items = "\n".join(f"- {line}" for line in lines if line)
        outcome = await workspace.append(path, items, heading=HEADING)
    except WaitsForReview:
        return ""  # the turn tells what waits
    except (OSError, PathOutsideRoot, FileBusy) as error:
        return f"The assistant saved no note of this, and {path} could not be written: {error}"
    if not outcome.written:
        return ""
    parts.on_notes(path)
    said = "you asked it to remember" if is_asked else "it said it would remember"
    return f"The assistant did not save what {said}, so Nacre wrote it into {path}."


MOST_SHORTENINGS = 3
"""How often a turn halves what a provider calls too long where no compaction helps."""

BROKEN_ANSWER_ENTRY = "nacre.broken_answer"


class Turn:
    """One turn of an open session. Messages, commands and endings of sessions are carried out on it.

    `parts` is shared by the agent's turns, `emit` receives the events, `bounds` limits the turn. `words` is
    the message that it answers; `trigger` is what made that message if nobody said it. `usage` sums the
    tokens and the cost of the turn's answers; it is `None` until a provider has reported any.
    """

    def __init__(
        self, session: OpenSession, parts: TurnParts, emit: Emit, bounds: TurnBounds | None = None
    ) -> None:
        self.session = session
        self.parts = parts
        self.emit = emit
        self.bounds = bounds or TurnBounds()
        self.now_ms = session.now_ms
        self.usage: Usage | None = None
        self.words = ""
        self.trigger: Trigger = ""
        self._asked: Candidate | None = None
        self._context: TurnContext | None = None
        self._window: Window | None = None
        self._deadline = asyncio.timeout(None)
        self._texts_before_tools: list[str] = []
        self._has_overflowed = False
        self._has_written = False
        self._reminders: tuple[str, ...] = ()
        self._shortenings = 0

    def of_session(self, session: OpenSession) -> Turn:
        return Turn(session, self.parts, self.emit, self.bounds)

    def with_models(self, models: ModelChain) -> Turn:
        """A turn of the same session that asks other models."""
        if models is self.parts.models:
            return self
        return Turn(self.session, replace(self.parts, models=models), self.emit, self.bounds)

    async def write_down(
        self,
        text: str,
        attachments: tuple[Attachment, ...],
        inbound_id: str = "",
        *,
        quoted: Sequence[Quoted] = (),
    ) -> None:
        """Puts a message on disk, with what can be read of its attachments."""
        self.words = text
        origin, is_owner = self.session.route.origin, self.session.policy.is_owner is True
        speaker = ""
        if not self.trigger:
            speaker = speaker_label(origin.sender_name, origin.sender_id, is_owner=is_owner)
        await self._write(
            text, attachments, inbound_id, quoted, origin.sender_id, speaker, is_said=not self.trigger
        )

    async def _write(
        self,
        text: str,
        attachments: tuple[Attachment, ...],
        inbound_id: str,
        quoted: Sequence[Quoted],
        sender_id: str,
        speaker: str,
        *,
        is_said: bool = True,
    ) -> None:
        session, now_ms = self.session, self.now_ms()
        write: Callable[[UserMessage], Awaitable[object]] = session.say if is_said else session.journal.append

        async def put(message: UserMessage) -> None:
            if not session.policy.is_private:
                label = speaker if session.policy.audience == "group" else ""
                message = replace(message, sender=sender_id.strip(), speaker=label)
            await write(message)

        try:
            message = await message_of(
                text,
                attachments,
                quoted=quoted,
                takes_images=takes_images(self.parts.model),
                voice_notes=self.parts.voice_notes,
                timestamp_ms=now_ms,
                inbound_id=inbound_id,
            )
        except asyncio.CancelledError:
            if not inbound_id:  # whoever handed in a message with an id can hand it in again
                await put(unread_message(text, attachments, quoted=quoted, timestamp_ms=now_ms))
            raise
        await put(message)

    async def answer(self) -> Reply | None:
        """The reply to what was written down, or `None` for silence.

        Raises:
            ModelError: no model answered; the message and all that followed are on disk.
            TurnTimedOut: the answer took too long; the same holds.
            UsageLimitReached, TurnCancelled: the turn ended before its answer; the same holds.
            OutputInvalid: the answers were not of the type that was asked for; the same holds.
        """
        session, parts = self.session, self.parts
        agent, chat, model_name = parts.settings.agent, parts.chat(session), parts.model.name
        output = parts.options.output
        async with around_turn(parts.hooks, chat, model_name=model_name, usage=lambda: self.usage) as replied:
            if parts.sub_agent is None:
                for source in parts.tool_sources:
                    await source.ready(session.policy)
            if parts.sub_agent is None and not self.trigger:
                self._reminders = await due_reminders(session, parts, self.words)
            context = await self.context()
            self._deadline = asyncio.timeout(agent.timeout_seconds)
            try:
                async with self._limits():
                    answer = await run_loop(
                        self,
                        ask=with_model_hooks(
                            parts.models.ask(self.emit), parts.hooks, chat, model_name=model_name
                        ),
                        toolbox=context.toolbox,
                        emit=self.emit,
                        max_steps=agent.max_steps,
                        bounds=self.bounds,
                        output=None if output is None else OutputCheck(output, session.journal.append),
                    )
                await session.line.save_answer(
                    answer,
                    window_tokens=parts.models.window_tokens_of(answer),
                    compactions=session.compaction_count,
                )
            finally:
                await session.line.try_save_pending()
            reply = self.reply(answer, self._texts_before_tools)
            if self._reminders:
                await tick_reminders(parts, self._reminders)
            if parts.sub_agent is None and not self.trigger:
                said = reply.text if reply else ""
                parts.memory.capture(context.chat, self.words, said)
                if not self._has_written and (kept := await keep_promise(session, parts, self.words, said)):
                    self.emit(Warned(message=kept))
                    reply = reply and replace(reply, notice=kept)
            replied(reply)
        return reply

    @asynccontextmanager
    async def _limits(self) -> AsyncIterator[None]:
        """Limits the turn's time, lets messages join it, and explains what ends it before its answer."""
        line = self.session.line
        try:
            with self.bounds.joining.open():
                async with self._deadline:
                    yield
        except (asyncio.CancelledError, TurnCancelled, UsageLimitReached):
            await line.save_abort()
            raise
        except TimeoutError as error:
            if not self._deadline.expired():
                raise
            await line.save_abort()
            raise TurnTimedOut(
                f"The turn was stopped after {self.parts.settings.agent.timeout_seconds:.15g} seconds. "
                "What was said and done until then is kept: ask to go on, "
                "ask for less at once, or raise agents.defaults.timeoutSeconds."
            ) from error
        except ContextOverflow as overflow:
            raise ContextOverflow(
                f"{overflow} If your last message is very long, send less of it, or put it into a file of "
                "the workspace; /new begins a fresh session.",
                detail=overflow.detail,
            ) from overflow

    async def save_notes(self) -> None:
        """Flushes before the session is left, if anything was said in it since the last flush."""
        if self.session.flushes.has_unflushed_messages:
            await (await self.window()).flush_before_leaving()

    async def window(self) -> Window:
        """The session's window, as the model that is asked first has it."""
        if self._window is None:
            self._window = await self._window_in((await self._asked_first()).budget)
        return self._window

    async def context(self) -> TurnContext:
        if self._context is None:
            self._context = TurnContext(
                self.session,
                self.parts,
                await self._asked_first(),
                self.emit,
                words=self.words,
                reminders=reminder_text(self._reminders),
                pause=lambda: paused(self._deadline),
                run_sub_agent=partial(self.parts.run_sub_agent, self),
            )
        return self._context

    async def _asked_first(self) -> Candidate:
        if self._asked is None:
            self._asked = await self.parts.models.current()
        return self._asked

    async def _window_in(self, budget: ContextBudget) -> Window:
        if self.parts.sub_agent is not None:
            budget = replace(budget, flush_enabled=False)  # its caller knows what is worth a note
        return Window(self.session, self.parts, budget, await self.context(), self.emit)

    # The loop's `Conversation`.

    async def request(self) -> ModelRequest:
        """The whole context, after the window has made room."""
        with paused(self._deadline):
            await (await self.window()).fit()
        session, context = self.session, await self.context()
        output = self.parts.options.output
        if recall_is_due(session.branch):
            await self.recall()
        await context.bring_up_to_date()
        choice, names = self._parameters.tool_choice, [spec.name for spec in context.specs]
        if choice not in ("", "auto", "none", "required", *names):
            raise ConfigError(f"tool_choice={choice!r} is no tool of this chat: {', '.join(names)}.")
        return ModelRequest(
            system=await context.system(),
            messages=session.view.messages(),
            tools=context.specs,
            purpose="background" if self.trigger else "turn",
            output=output.schema if output is not None and context.output is None else None,
            parameters=self._parameters,
        )

    @cached_property
    def _parameters(self) -> ModelParameters:
        given, settings = self.parts.options.parameters, self.parts.settings.agent.params
        if given is not None:
            return given
        return ModelParameters(temperature=settings.temperature, reasoning_effort=settings.reasoning_effort)

    async def make_room(self, overflow: ContextOverflow) -> bool:
        """Shortens what is too large, or flushes and compacts once a turn; `False` after that.

        The overflow may say how large the window is. An unknown window is taken for no larger than what it
        refused: the size assumed for it would keep too much, and be refused again.
        """
        if self._has_overflowed:
            return False
        log.warning("the window of %s overflowed: %s", self.session.key, overflow)
        window = await self._window_in((await self.parts.models.current()).budget)
        if overflow.window_tokens is not None:
            window = await self._window_in(self.parts.models.budget_of(overflow.window_tokens))
        elif window.budget.window_source == "fallback":
            window = await self._window_in(window.budget.within((await window.measure()).tokens))
        self._window = window
        with paused(self._deadline):
            if await self._was_shortened(window):
                return True
            self._has_overflowed = True
            ended = await window.compact("overflow")
        return not ended.problem

    async def _was_shortened(self, window: Window) -> bool:
        if self._shortenings == MOST_SHORTENINGS:
            return False
        self._shortenings += 1
        tokens = (await window.measure()).tokens
        if not await window.shorten(tokens, was_refused=True):
            return False
        return (await window.measure()).tokens <= window.budget.compact_at

    async def record(self, message: Message) -> None:
        """Puts the message on disk, a tool's result no longer than fits."""
        context = await self.context()
        if isinstance(message, ToolResultMessage):
            self._has_written = self._has_written or writes(message)
            await self.session.journal.append(await context.results.fitted(message))
            await context.guard.recorded(message.tool_call_id)
            return
        await self.session.journal.append(message)
        if isinstance(message, AssistantMessage):
            context.results.begin_step(len(message.tool_calls))
            if message.tool_calls and self._parameters.tool_choice:
                self._parameters = replace(self._parameters, tool_choice="")
            if message.usage is not None:
                self.spend(message.usage)
            if message_text(message).strip():
                self._texts_before_tools.append(message_text(message))

    async def record_joined_messages(self) -> None:
        """Puts on disk what was said while tools ran, as the hooks let it through."""
        for joining in self.bounds.joining.take():
            try:
                inbound = await run_inbound_hooks(self.parts.hooks, self.parts.chat(self.session), joining)
            except MessageRefused as refused:
                log.info("a message does not join the turn of %s: %s", self.session.key, refused)
                continue
            sender_id, joining_id = joining.sender_id, joining.inbound_id
            speaker = speaker_label(joining.sender_name, sender_id, is_owner=joining.is_owner is True)
            await self._write(
                inbound.text, inbound.attachments, joining_id, inbound.quoted, sender_id, speaker
            )
            self.emit(MessageJoined(inbound_id=joining_id))

    async def set_aside(self, answer: AssistantMessage) -> None:
        """Keeps the beginning of an answer that is asked for again where no model sees it."""
        await self.session.journal.append_custom(BROKEN_ANSWER_ENTRY, answer.to_json())

    async def recall(self) -> None:
        """Puts logs and notes of the last days into the transcript; what cannot be read costs no turn."""
        if self.parts.sub_agent is None and self.session.policy.loads_daily_logs:
            await recalled(self.session, self.parts, self.emit)

    def spend(self, usage: Usage) -> None:
        """Adds what a model call, or a sub-agent, has used."""
        self.usage = usage if self.usage is None else self.usage + usage

    def ending(self, reply: Reply | None) -> ReplyReady | Silence:
        if reply is not None:
            return ReplyReady(reply=reply)
        session = self.session
        return Silence(session_key=session.key, session_id=session.session_id, usage=self.usage)

    def reply(self, answer: AssistantMessage, texts: Sequence[str]) -> Reply | None:
        """The final text of an answer; if it has none, the last of the `texts` before its tool calls."""
        final = message_text(answer)
        output = self.parts.options.output
        if output is not None:
            return self._reply(final, output=output.value(final))
        if is_silent(final):
            return None
        text = without_token(final).strip() or (without_token(texts[-1]).strip() if texts else "")
        if not text:
            self.emit(Warned(message="The model ended its turn without a word."))
            return None
        return self._reply(text)

    def _reply(self, text: str, *, output: Any = None) -> Reply:
        session = self.session
        return Reply(
            text=text,
            session_key=session.key,
            session_id=session.session_id,
            usage=self.usage,
            output=output,
        )
