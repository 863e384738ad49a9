"""How `nacre serve` ends while a turn runs: the turn may end; a second signal ends the program at once."""

from __future__ import annotations

import signal
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from tests.bridges.channels.contract.line_extension import install_line
from tests.bridges.line_channel import LineServer
from tests.cli.program import WAIT_SECONDS
from tests.cli.serving.test_serve import line_settings, serving
from tests.servers import provider_wire as wire
from tests.servers.provider_server import ProviderServer
from tests.servers.warm_python import WarmProgram

pytestmark = pytest.mark.slow  # several programs, and a provider
PROVIDER = {"NACRE_MODEL": "openai/test-model", "NO_PROXY": "127.0.0.1"}


class Slow:
    """A model that answers when it is let."""

    def __init__(self) -> None:
        self.asked = threading.Semaphore(0)
        self.may = threading.Event()

    def __call__(self, _request: object) -> wire.Step:
        self.asked.release()
        self.may.wait(WAIT_SECONDS)
        return wire.reply("Here I am.")


@contextmanager
def in_a_turn(home: Path, server: LineServer, slow: Slow) -> Iterator[WarmProgram]:
    """A program that serves, in the middle of a turn, and that was asked to end."""
    path = install_line(home / f"site-{len(server.says)}")
    with ProviderServer(responder=slow) as provider:
        providers = {"openai": {"baseUrl": provider.url, "apiKey": "sk-test"}}
        line_settings(home, server.port, models={"providers": providers})
        with serving(home, PYTHONPATH=path, **PROVIDER) as process:
            if not server.says:
                server.say("Are you there?")
            assert slow.asked.acquire(timeout=WAIT_SECONDS)
            process.send_signal(signal.SIGTERM)
            yield process
            slow.may.set()


def test_a_turn_that_runs_may_end_before_the_program(tmp_path: Path) -> None:
    """Its answer is sent, and the program ends with code 0."""
    slow = Slow()
    with LineServer() as server, in_a_turn(tmp_path, server, slow) as process:
        slow.may.set()
        server.wait_for(lambda here: here.shown())
        assert process.wait(WAIT_SECONDS) == 0

    assert server.shown() == ["Here I am."]


def test_a_second_signal_ends_it_at_once_and_the_message_is_answered_later(tmp_path: Path) -> None:
    """As after a kill: the next start goes on with the turn, and the answer is said once."""
    slow = Slow()
    with LineServer() as server:
        with in_a_turn(tmp_path, server, slow) as process:
            while process.poll() is None:  # two that come together are one
                process.send_signal(signal.SIGTERM)
                with suppress(subprocess.TimeoutExpired):
                    process.wait(0.1)
            assert process.poll() == 128 + signal.SIGTERM
        assert server.shown() == []
        again = Slow()
        again.may.set()
        with in_a_turn(tmp_path, server, again) as process:
            server.wait_for(lambda here: here.shown())
            assert process.wait(WAIT_SECONDS) == 0

    assert server.shown() == ["Here I am."]
