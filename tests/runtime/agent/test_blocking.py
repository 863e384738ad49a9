"""The blocking twin: the same agent without an event loop of one's own, or beside one."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from nacre import BlockingAgent, UsageLimits
from nacre.runtime.contracts.errors import ConfigError, TurnBroken, TurnCancelled, UsageLimitReached
from nacre.runtime.contracts.events import ReplyReady, TextStreamed
from nacre.runtime.models.scripted import Clock, CountingIds, ScriptedModel, ScriptedStep, calls, says
from tests.faults.drivers import ROOT
from tests.runtime.agents import START, said, transcript_file, user_texts

DRIVER = ROOT / "tests/faults/interrupt_driver.py"


def opened(state_dir: Path, *steps: ScriptedStep, **options: Any) -> BlockingAgent:
    return BlockingAgent.open(
        state_dir=state_dir,
        model=ScriptedModel(*steps),
        environment={"HOME": str(state_dir / "home")},
        clock=Clock(START),
        new_id=CountingIds(""),
        watch=False,
        **options,
    )


def threads_of_nacre() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == "nacre"]


def test_only_open_opens_one(tmp_path: Path) -> None:
    """What a stranger writes first is answered with what to write."""
    for options in ({}, {"state_dir": tmp_path}):
        with pytest.raises(TypeError, match=r"with BlockingAgent\.open"):
            BlockingAgent(**options)  # type: ignore[call-arg]  # as a script might


def test_a_script_asks_and_reads_the_reply(tmp_path: Path) -> None:
    """Two turns, the history, and no thread left behind."""
    with opened(tmp_path, says("Hello."), says("Tuesday.")) as agent:
        first = agent.ask("Hi")
        second = agent.respond(said("What day is it?"))
        session = agent.sessions.get()
        texts = [message.text for message in session.history()]
        assert [info.key for info in agent.sessions.list()] == [session.key]
    agent.close()

    assert first is not None
    assert second is not None
    assert texts == ["Hi", "Hello.", "What day is it?", "Tuesday."]
    assert threads_of_nacre() == []
    with pytest.raises(TurnBroken, match="closed"):
        agent.ask("Hi")


def test_events_are_an_iterator_and_leaving_it_stops_the_turn(tmp_path: Path) -> None:
    """Text as it comes, the reply last; a loop that breaks gets its lane back."""
    with opened(tmp_path, says("Hello there."), says("a long story " * 50), says("Short.")) as agent:
        events = list(agent.stream(said("Hi")))
        for event in agent.stream(said("Tell me")):
            if isinstance(event, TextStreamed):
                break
        reply = agent.ask("Shorter")

    assert isinstance(events[-1], ReplyReady)
    assert "".join(event.text for event in events if isinstance(event, TextStreamed)) == "Hello there."
    assert reply is not None
    assert reply.text == "Short."


def test_sessions_can_be_worked_on(tmp_path: Path) -> None:
    """Each method of `Session` is there and waits."""
    quiet = says("NO_REPLY", purpose="flush")
    with opened(tmp_path, says("Roses."), says("Bees."), quiet, says("Tulips.")) as agent:
        agent.ask("Flowers?")
        session = agent.sessions.get()
        session.label("start")
        session.ask("And animals?")
        assert session.rewind(session.turns(limit=1)[0]).left == 2
        fork = session.fork(key="dm:idea")
        fork.ask("Other flowers?")
        assert [label.name for label in session.labels()] == ["start"]
        assert session.usage().context_tokens == 0
        assert session.status().key == session.key
        assert session.compact().problem.startswith("Nothing to compact")
        first_id = session.session_id
        session.new()
        assert session.session_id != first_id
        assert [item.session_id for item in session.earlier()] == [first_id]
        session.resume(first_id)
        assert session.session_id == first_id


def test_another_thread_stops_a_turn(tmp_path: Path) -> None:
    """`stop` is heard while the first thread waits, which gets the same error as with `Agent`."""
    stopping: list[threading.Thread] = []

    def dig() -> str:
        """Digs, and asks another thread to stop the turn."""
        stopping.append(threading.Thread(target=lambda: agent.stop("main", after="tools")))
        stopping[0].start()
        stopping[0].join()
        return "dug"

    with (
        opened(tmp_path, calls(("dig", {})), tools=[dig]) as agent,
        pytest.raises(TurnCancelled, match="after its tools"),
    ):
        agent.ask("Dig")


def test_errors_are_those_of_the_agent(tmp_path: Path) -> None:
    """Also when the agent cannot be opened, which leaves no thread."""
    with pytest.raises(ConfigError):
        opened(tmp_path, tools=[print])
    assert threads_of_nacre() == []
    with opened(tmp_path, says("Hello.")) as agent, pytest.raises(UsageLimitReached):
        agent.ask("Hi", limits=UsageLimits(model_calls=0))


def test_a_call_on_its_own_loop_is_refused_and_not_waited_for(tmp_path: Path) -> None:
    """It would wait for itself; the tool's failure says so."""
    seen: list[BaseException] = []

    async def ask_again() -> str:
        """Asks the agent that asks it."""
        try:
            agent.ask("Hi")
        except TurnBroken as error:
            seen.append(error)
        return "no"

    with opened(tmp_path, calls(("ask_again", {})), says("Done."), tools=[ask_again]) as agent:
        agent.ask("Go")
    assert [str(error)[:17] for error in seen] == ["A blocking agent "]


def test_ctrl_c_stops_the_turn_and_the_agent_goes_on(tmp_path: Path) -> None:
    """The interrupt comes back as `KeyboardInterrupt` when the turn has ended; what was said is on disk."""
    with subprocess.Popen(
        [sys.executable, str(DRIVER), str(tmp_path)], cwd=ROOT, stdout=subprocess.PIPE, text=True
    ) as script:
        assert script.stdout is not None
        assert json.loads(script.stdout.readline()) == "waiting"
        script.send_signal(signal.SIGINT)
        told = [json.loads(line) for line in script.stdout]
    assert script.returncode == 0
    assert told == ["interrupted", "Here I am."]
    assert user_texts(transcript_file(tmp_path)) == ["Wait", "Still there?"]
