"""A channel for tests: a server on loopback TCP that speaks JSON lines, and the bridge to it.

The server keeps what people said with growing numbers, sends a bridge everything behind the number it names,
and counts what it is sent. It runs in a thread of its own, so it outlives a child process that is killed.
A bridge is told what it can do by `Capabilities`; the server honours keys only for one with idempotent sends.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from nacre.bridges.contracts.bridge import Bridge, Capabilities, Inbox, Part, Place
from nacre.bridges.contracts.errors import DeliveryRefused, NotDelivered
from nacre.runtime.contracts.inbound import Inbound
from tests.servers.listening import stop_accepting

ALL = Capabilities(
    greatest_length=200,
    can_edit=True,
    edit_seconds=0.01,
    has_typing=True,
    has_idempotent_sends=True,
    can_read_back=True,
)
NONE = Capabilities(greatest_length=90, length_unit="bytes")
READ_BACK = Capabilities(greatest_length=200, can_read_back=True)


@dataclass
class Sent:
    """A message of the bridge as the chat shows it."""

    id: str
    chat: str
    key: str
    text: str
    edits: int = 0


@dataclass
class LineServer:
    """Use it as `with LineServer() as server`. `sent` is every message that arrived, in its order."""

    says: list[dict[str, Any]] = field(default_factory=list)
    sent: list[Sent] = field(default_factory=list)
    signs: list[str] = field(default_factory=list)
    refused_chats: set[str] = field(default_factory=set)
    port: int = 0
    _changed: threading.Condition = field(default_factory=threading.Condition)
    _loop: asyncio.AbstractEventLoop = field(default_factory=asyncio.new_event_loop)
    _writers: set[asyncio.StreamWriter] = field(default_factory=set)
    _ready: threading.Event = field(default_factory=threading.Event)
    _thread: threading.Thread | None = None

    def say(self, text: str, *, chat: str = "chat", sender: str = "ann", **more: Any) -> None:
        """A person says something; `more` are fields of the inbound message, such as `chat_kind`."""
        number = len(self.says) + 1
        self.says.append({"n": number, "text": text, "chat": chat, "sender": sender, **more})
        self._loop.call_soon_threadsafe(self._tell_all, [self.says[-1]])

    def say_again(self, number: int) -> None:
        """The server sends a message that it sent already, as servers do after a broken connection."""
        self._loop.call_soon_threadsafe(self._tell_all, [self.says[number - 1]])

    def shown(self, chat: str = "chat") -> list[str]:
        """What the chat shows of the bridge."""
        return [sent.text for sent in self.sent if sent.chat == chat]

    def wait_for(self, done: Any, seconds: float = 150) -> None:
        """Waits until `done(self)`, looked at after each thing that arrives."""
        with self._changed:
            assert self._changed.wait_for(lambda: done(self), seconds), f"never: {self.sent} {self.signs}"

    async def until(self, done: Any, seconds: float = 150) -> None:
        """The same for async tests."""
        await asyncio.to_thread(self.wait_for, done, seconds)

    def cut(self) -> None:
        """Ends all connections."""
        self._loop.call_soon_threadsafe(lambda: [writer.close() for writer in list(self._writers)])

    def __enter__(self) -> LineServer:
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()
        assert self._ready.wait(60)
        return self

    def __exit__(self, *_ended: object) -> None:
        self._loop.call_soon_threadsafe(self._stop.set)
        assert self._thread is not None
        self._thread.join(60)

    def _run(self) -> None:
        with asyncio.Runner(loop_factory=lambda: self._loop) as runner:
            runner.run(self._serve())

    async def _serve(self) -> None:
        self._stop = asyncio.Event()
        server = await asyncio.start_server(self._connected, "127.0.0.1", 0, limit=2**24)
        self.port = server.sockets[0].getsockname()[1]
        self._ready.set()
        await self._stop.wait()
        await stop_accepting(server.sockets)
        server.close()
        for writer in list(self._writers):
            writer.close()

    def _tell_all(self, lines: Sequence[dict[str, Any]]) -> None:
        for writer in [each for each in self._writers if not each.is_closing()]:
            writer.writelines(json.dumps({"said": line}).encode() + b"\n" for line in lines)

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionError, ValueError):
            while line := await reader.readline():
                asked = json.loads(line)
                with self._changed:
                    answer = self._answer(asked)
                    self._changed.notify_all()
                if writer.is_closing():
                    continue  # what a bridge asked before it was killed is done, and nobody hears of it
                writer.write(json.dumps({"re": asked.get("re"), **answer}).encode() + b"\n")
                if asked["do"] == "listen":
                    behind = self.says[int(asked["after"] or 0) :]
                    writer.writelines(json.dumps({"said": said}).encode() + b"\n" for said in behind)
                    with self._changed:
                        self._writers.add(writer)
                        self._changed.notify_all()
        self._writers.discard(writer)
        writer.close()

    def _answer(self, asked: dict[str, Any]) -> dict[str, Any]:
        same = [sent for sent in self.sent if sent.key and sent.key == asked.get("key")]
        match asked["do"]:
            case "send" if asked["chat"] in self.refused_chats:
                return {"refused": "you were removed from the chat"}
            case "send":
                if same and asked["once"]:
                    return {"id": same[0].id}
                self.sent.append(
                    Sent(str(len(self.sent) + 1), asked["chat"], asked.get("key", ""), asked["text"])
                )
                return {"id": self.sent[-1].id}
            case "edit":
                [sent] = [sent for sent in self.sent if sent.id == asked["id"]]
                sent.text, sent.edits = asked["text"], sent.edits + 1
            case "find":
                return {"id": same[0].id if same else None}
            case "typing":
                self.signs.append(asked["chat"])
        return {}


class LineBridge(Bridge):
    """The bridge to a `LineServer`. Several accounts may share a server."""

    channel = "line"

    def __init__(self, port: int, *, account: str = "default", capabilities: Capabilities = ALL) -> None:
        self.account = account
        self.capabilities = capabilities
        self._port = port
        self._writer: asyncio.StreamWriter | None = None
        self._answers: dict[int, asyncio.Future[dict[str, Any]]] = {}
        self._asked = 0
        self._is_stopped = False
        self.handed_over = 0
        """How many messages the gateway has taken and put into their queues or turns."""

    async def start(self, inbox: Inbox) -> None:
        """Listens behind the cursor; each message is taken before the next one is read."""
        reader, self._writer = await asyncio.open_connection("127.0.0.1", self._port, limit=2**24)
        listening = asyncio.create_task(self._ask(do="listen", after=inbox.cursor))
        try:
            if self._is_stopped:
                return
            said: asyncio.Queue[dict[str, Any] | None] = asyncio.Queue()
            reading = asyncio.create_task(self._read(reader, said))
            await listening
            inbox.connected()
            while (message := await said.get()) is not None:
                await inbox.receive(self._inbound(message), cursor=str(message["n"]))
                self.handed_over += 1
            await reading
            if not self._is_stopped:
                raise ConnectionError("the server hung up")
        finally:
            self._writer.close()
            self._writer = None
            listening.cancel()
            await asyncio.gather(listening, return_exceptions=True)

    async def stop(self) -> None:
        """Hangs up."""
        self._is_stopped = True
        if self._writer is not None:
            self._writer.close()

    async def deliver(self, part: Part) -> str:
        """Sends one message."""
        answer = await self._ask(
            do="send",
            chat=part.place.chat_id,
            text=part.text,
            key=part.key,
            once=self.capabilities.has_idempotent_sends,
        )
        if "refused" in answer:
            raise DeliveryRefused(answer["refused"])
        return str(answer["id"])

    async def edit(self, part: Part, message_id: str) -> None:
        """Changes one."""
        await self._ask(do="edit", id=message_id, text=part.text)

    async def typing(self, place: Place) -> None:
        """Shows the sign."""
        await self._ask(do="typing", chat=place.chat_id)

    async def find(self, part: Part) -> str | None:
        """Looks for a key."""
        found: str | None = (await self._ask(do="find", key=part.key))["id"]
        return found

    def _inbound(self, said: dict[str, Any]) -> Inbound:
        fields = {"chat_kind": "direct", **said}
        for name in ("n", "chat", "sender"):
            fields.pop(name)
        return Inbound(
            **fields,
            channel=self.channel,
            account=self.account,
            chat_id=said["chat"],
            sender_id=said["sender"],
            message_id=str(said["n"]),
        )

    async def _read(self, reader: asyncio.StreamReader, said: asyncio.Queue[dict[str, Any] | None]) -> None:
        try:
            while line := await reader.readline():
                value = json.loads(line)
                if "said" in value:
                    said.put_nowait(value["said"])
                elif (waiting := self._answers.pop(value["re"], None)) and not waiting.done():
                    waiting.set_result(value)
        except ConnectionError:
            pass
        finally:
            if self._writer is not None:
                self._writer.close()  # what is asked from now on would never be answered
            for waiting in self._answers.values():
                if not waiting.done():
                    waiting.set_exception(ConnectionError("the connection broke before the answer came"))
            self._answers.clear()
            said.put_nowait(None)

    async def _ask(self, **asked: Any) -> dict[str, Any]:
        if self._writer is None or self._writer.is_closing():
            raise NotDelivered("there is no connection to the line server")
        self._asked += 1
        waiting = self._answers[self._asked] = asyncio.get_running_loop().create_future()
        self._writer.write(json.dumps({"re": self._asked, **asked}).encode() + b"\n")
        return await waiting
