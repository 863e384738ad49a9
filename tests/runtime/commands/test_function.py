"""A bot author's own chat commands: who may call them, what they are given, and how they fail."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from nacre import Agent, CommandContext, Inbound, Reply, command
from nacre.runtime.commands.function import FunctionCommand
from nacre.runtime.contracts.errors import ConfigError, TurnBroken
from nacre.runtime.contracts.inbound import Attachment
from nacre.runtime.models.scripted import ScriptedModel, says
from nacre.sessions.contracts.messages import message_text
from tests.runtime.agents import entries, opened, said, transcript_file

HIVES = {"garden": 12.5, "orchard": 31.0}
GROUP = {"chat_kind": "group", "channel": "chat", "chat_id": "club"}
EVE = {**GROUP, "is_owner": False, "sender_id": "eve"}


@command("honey", help="what a hive has", arguments="hive", aliases=["hive"])
async def honey(run: CommandContext) -> str:
    return f"{HIVES[run.text]} kg"


@command("rules", help="the rules of the club", who="anyone", where=["group"])
def rules(run: CommandContext) -> str | None:
    run.reply(f"Dear {run.sender_id or 'owner'},")
    return "be kind to bees."


@asynccontextmanager
async def keeping(
    state_dir: Path, commands: Sequence[FunctionCommand], *steps: object
) -> AsyncIterator[tuple[Agent, ScriptedModel]]:
    model = ScriptedModel(*steps)  # type: ignore[arg-type]  # steps of a script
    async with opened(state_dir, model, commands=commands) as agent:
        yield agent, model


async def told(agent: Agent, inbound: Inbound) -> str:
    reply = await agent.respond(inbound)
    assert isinstance(reply, Reply)
    assert reply.is_command
    return reply.text


async def test_the_owner_calls_it_by_either_name(tmp_path: Path) -> None:
    """The text behind the name is handed in; nothing is asked of a model, and nothing said is recorded."""
    async with keeping(tmp_path, [honey, rules]) as (agent, _):
        assert await told(agent, said("/honey garden")) == "12.5 kg"
        assert await told(agent, said("/HIVE: orchard")) == "31.0 kg"
        listed = await told(agent, said("/help"))
    assert list(tmp_path.rglob("*.jsonl")) == []
    assert "/honey hive" in listed
    assert "what a hive has" in listed
    assert "/rules" not in listed


async def test_a_plain_function_for_anyone_answers_a_stranger_in_a_group(tmp_path: Path) -> None:
    """And `/help` there shows that one alone; the owner's command is words to the assistant."""
    async with keeping(tmp_path, [honey, rules], says("I do not know.")) as (agent, model):
        assert await told(agent, said("@bees /rules", **EVE)) == "Dear eve,\nbe kind to bees."
        listed = await told(agent, said("/help", **EVE))
        reply = await agent.respond(said("/honey garden", **EVE))

    assert [line.split()[0] for line in listed.splitlines()[:-1]] == ["/rules", "/help"]
    assert reply is not None
    assert not reply.is_command
    assert message_text(model.requests[0].messages[-1]) == "[id eve]\n/honey garden"


async def test_what_is_offered_where_can_be_asked(tmp_path: Path) -> None:
    """A bridge fills its menu with it, and the terminal completes from it."""
    async with keeping(tmp_path, [honey, rules]) as (agent, _):
        private = [item.name for item in agent.commands(said(""))]
        group = [item.name for item in agent.commands(said("", **GROUP))]
        stranger = [item.name for item in agent.commands(said("", **EVE))]

    assert ("honey" in private, "rules" in private) == (True, False)
    assert ("honey" in group, "rules" in group) == (False, True)
    assert stranger == ["rules", "help"]


async def test_a_command_works_on_the_session_of_its_chat(tmp_path: Path) -> None:
    """Its methods do not wait for the lane that the command holds; what it says is a turn like any other."""

    @command("again", help="ask once more, from before the last question")
    async def again(run: CommandContext) -> str:
        turn = (await run.session.turns())[0]
        await run.session.rewind(turn, note="Tried before.")
        reply = await run.session.ask(turn.text)
        before = len(await run.session.history())
        await run.session.fork()
        return f"{reply.text if reply else '-'} {before} {len(await run.session.history())}"

    steps = (says("Roses."), says("NO_REPLY", purpose="flush"), says("Tulips."))
    async with keeping(tmp_path, [again], *steps) as (agent, model):
        await agent.ask("Which flowers?")
        first = await agent.respond(said("/again"))
        session = await agent.sessions.get()
    assert first is not None
    assert first.text == "Tulips. 2 2"
    assert first.session_id == session.session_id
    assert [message_text(message) for message in model.requests[-1].messages][1:] == ["Which flowers?"]


async def test_a_command_of_a_group_reaches_nothing_private(tmp_path: Path) -> None:
    """Its session is the group's, a copy of it cannot become private, and no other session opens."""
    seen: list[object] = []

    @command("spy", help="look", who="anyone", where=["group"])
    async def spy(run: CommandContext) -> None:
        seen.append((run.session.key, run.policy.is_private, run.policy.audience))
        seen.extend(message.text for message in await run.session.history())
        other = await run.session.fork(key="chat:group:copy")
        with pytest.raises(TurnBroken, match="cannot wait"):
            await other.history()

    async with keeping(tmp_path, [spy], says("I will."), says("Hello.")) as (agent, _):
        await agent.ask("My secret is 4711")
        await agent.respond(said("Hi", **EVE))
        assert await agent.respond(said("/spy", **EVE)) is None

    assert seen == [("agent:main:chat:group:club", False, "group"), "Hi", "Hello."]


async def test_what_came_with_it_is_handed_in_and_silence_is_kept(tmp_path: Path) -> None:
    """An attachment reaches the function; a command that returns nothing answers nothing."""
    got: list[bytes] = []

    @command("keep", help="keep a file")
    def keep(run: CommandContext) -> None:
        got.extend(file.data for file in run.attachments)

    file = Attachment(name="a.csv", mime_type="text/csv", data=b"a,b")
    async with keeping(tmp_path, [keep]) as (agent, _):
        assert await agent.respond(said("/keep", attachments=(file,))) is None
    assert got == [b"a,b"]


async def test_one_that_fails_says_so_and_the_chat_goes_on(tmp_path: Path) -> None:
    """The error names the command and what it raised; the session is as usable as before."""
    async with keeping(tmp_path, [honey], says("Hello.")) as (agent, _):
        with pytest.raises(TurnBroken, match=r"The command /honey failed: KeyError: 'cellar'"):
            await agent.respond(said("/honey cellar"))
        reply = await agent.ask("hello")
    assert reply is not None
    assert [entry["type"] for entry in entries(transcript_file(tmp_path))].count("message") == 2


@pytest.mark.parametrize(
    ("name", "problem"), [("new", "two chat commands '/new'"), ("Honey!", "cannot name a chat command")]
)
async def test_a_bad_name_is_refused_when_the_agent_opens(tmp_path: Path, name: str, problem: str) -> None:
    """Before anything is made on disk."""

    @command(name, help="x")
    def bad(run: CommandContext) -> str:
        return run.text

    with pytest.raises(ConfigError, match=problem):
        async with keeping(tmp_path / "state", [bad]):
            pass
    assert not (tmp_path / "state").exists()


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"help": ""}, "no help"),
        ({"help": "x", "who": "friends"}, "who='friends'"),
        ({"help": "x", "where": ("channel",)}, "where="),
        ({"help": "x", "where": ()}, "where="),
        ({"help": "x", "where": "group"}, "where="),
    ],
)
def test_what_cannot_be_a_command_is_refused_at_once(options: dict[str, str], problem: str) -> None:
    """When the function is decorated, with the value that is wrong."""

    def bare(run: CommandContext) -> str:
        return run.text

    with pytest.raises(TypeError, match=problem):
        command("bare", **options)(bare)  # type: ignore[arg-type]  # wrong on purpose


def test_the_docstring_is_its_help() -> None:
    """The first line, where nothing else is given."""

    @command("hello")
    def hello(_run: CommandContext) -> str:
        """Says hello.

        More for whoever reads the source.
        """
        return "hello"

    assert hello.help == "Says hello."
