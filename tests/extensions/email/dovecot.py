"""A real Dovecot, and an SMTP server that puts what it is given into Dovecot's folders."""

from __future__ import annotations

import asyncio
import email
import itertools
import os
import pwd
import smtplib
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from datetime import UTC, datetime
from email.message import EmailMessage, Message
from email.policy import default
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from aiosmtpd.controller import Controller
from aiosmtpd.smtp import SMTP, Envelope, Session

from nacre.bridges.contracts.bridge import Bridge
from nacre.extensions.email.bridge import EmailBridge
from nacre.extensions.email.settings import EmailSettings
from tests.bridges.channels.contract.served import ServedWorld, inhabited
from tests.bridges.channels.contract.servers import ServerProcess, free_port, program

OWNER = "nobody"
"""Dovecot reads no mail as root."""
CONFIG = """
protocols = imap
listen = 127.0.0.1
base_dir = {folder}/run
state_dir = {folder}/run
log_path = {folder}/dovecot.log
ssl = no
disable_plaintext_auth = no
mail_location = maildir:{folder}/mail/%n
first_valid_uid = 1
mail_max_userip_connections = 100
auth_mechanisms = plain
passdb {{
  driver = static
  args = password=secret
}}
userdb {{
  driver = static
  args = uid={owner} gid=nogroup home={folder}/mail/%n
}}
service imap-login {{
  inet_listener imap {{
    port = {port}
  }}
  inet_listener imaps {{
    port = 0
  }}
}}
service stats {{
  chroot =
}}
"""


class Post:
    """The SMTP server: each recipient has a folder."""

    def __init__(self, folder: Path) -> None:
        self._mail = folder / "mail"
        self._numbers = itertools.count()
        self._owner = pwd.getpwnam(OWNER)

    def box(self, name: str) -> Path:
        """Somebody's folder, made if need be."""
        box = self._mail / name
        for each in (self._mail, box, *(box / part for part in ("new", "cur", "tmp"))):
            if not each.exists():
                each.mkdir(mode=0o777)
                os.chown(each, self._owner.pw_uid, self._owner.pw_gid)
        return box

    async def handle_DATA(self, _server: SMTP, _session: Session, envelope: Envelope) -> str:  # noqa: N802 - aiosmtpd's name
        """Puts a message into the folder of each recipient."""
        for address in envelope.rcpt_tos:
            self.put(address.partition("@")[0], envelope.original_content or b"")
        return "250 taken"

    def put(self, name: str, raw: bytes) -> None:
        """Delivers a message, as a maildir wants it: whole or not at all."""
        box, file = self.box(name), f"{datetime.now(UTC).timestamp():.6f}.{next(self._numbers)}.test"
        (box / "tmp" / file).write_bytes(raw)
        os.chown(box / "tmp" / file, self._owner.pw_uid, self._owner.pw_gid)
        (box / "tmp" / file).rename(box / "new" / file)

    def messages(self, name: str) -> list[Message]:
        """What is in somebody's folder, the oldest first."""
        files = [file for part in ("new", "cur") for file in (self.box(name) / part).iterdir()]
        return [
            email.message_from_bytes(file.read_bytes(), policy=default) for file in sorted(files, key=_age)
        ]


def _age(file: Path) -> tuple[float, int]:
    second, fraction, number, *_ = file.name.split(".")
    return float(f"{second}.{fraction}"), int(number)


class Person:
    """Somebody with a program for mail."""

    def __init__(self, post: Post, port: int, name: str) -> None:
        self.address = f"{name}@localhost"
        self._post = post
        self._port = port
        self._numbers = itertools.count(1)

    async def join(self) -> None:
        """Has a folder."""
        self._post.box(self.address.partition("@")[0])

    async def leave(self) -> None:
        """Nothing ends."""

    async def send(self, text: str, *, subject: str = "Re: Hello", cc: str = "", **headers: str) -> str:
        """Sends a message to the assistant; its id."""
        mail = EmailMessage(policy=default)
        mail["From"], mail["To"], mail["Subject"] = self.address, "nacre@localhost", subject
        mail["Message-ID"] = f"<{next(self._numbers)}.{id(self)}@localhost>"
        if cc:
            mail["Cc"] = cc
        for name, value in headers.items():
            mail[name.replace("_", "-")] = value
        mail.set_content(text)
        await asyncio.to_thread(self.submit, mail)
        return str(mail["Message-ID"])

    def submit(self, mail: EmailMessage) -> None:
        """Hands a message to the server."""
        with smtplib.SMTP("127.0.0.1", self._port) as server:
            server.send_message(mail)


class DovecotWorld(ServedWorld):
    """`World` by e-mail. The group is Ann and Bob."""

    channel = "email"
    ann = "ann@localhost"
    keeps_messages = True
    has_threads = True

    def __init__(self, server: ServerProcess, post: Post, smtp_port: int) -> None:
        super().__init__(server, bridge)
        self.post = post
        self.person = Person(post, smtp_port, "ann")
        self._ids: dict[str, str] = {}
        self._private = ""
        self.spec = {
            "address": "nacre@localhost",
            "password": "secret",
            "imapHost": "127.0.0.1",
            "imapPort": server.port,
            "smtpHost": "127.0.0.1",
            "smtpPort": smtp_port,
            "tls": False,
            "trustFrom": True,
            "pollSeconds": 0.5,
            "mostPerHour": 1000,
        }

    async def say(self, text: str, *, group: bool = False, thread: str = "") -> None:
        """Ann says it: in private all of it in one thread."""
        root = self._ids[thread] if thread else "" if group else self._private
        answered = {"References": root, "In-Reply-To": root} if root else {}
        cc, subject = ("bob@localhost", f"Re: {thread}" if thread else text) if group else ("", "Re: Hello")
        self._ids[text] = await self.person.send(text, subject=subject, cc=cc, **answered)
        self._private = self._private or ("" if group else self._ids[text])

    def shown(self, *, group: bool = False, thread: str = "") -> Sequence[str]:
        """What Ann has alone, or with Bob; with `thread` the answers to what answers that."""
        root = self._ids.get(thread, "")
        return [
            mail.get_content().replace("\r\n", "\n").rstrip("\n")  # type: ignore[attr-defined]
            for mail in self.post.messages("ann")
            if "nacre@" in str(mail["From"]) and ("bob@localhost" in str(mail["To"])) == group
            if not group or (root in _before(mail) if thread else not _before(mail))
        ]


def _before(mail: Message) -> list[str]:
    """What was said in a thread before the message that is answered."""
    return str(mail["References"]).split()[:-1]


def bridge(spec: dict[str, Any]) -> Bridge:
    """A bridge to the servers."""
    return EmailBridge(EmailSettings.model_validate(spec), now=lambda: datetime.now(UTC))


@contextmanager
def post_office(folder: Path) -> Iterator[tuple[Post, int]]:
    """The SMTP server and its port."""
    post, port = Post(folder), free_port()
    controller = Controller(post, hostname="127.0.0.1", port=port)
    controller.start()
    try:
        yield post, port
    finally:
        controller.stop()


def dovecot(folder: Path) -> ServerProcess:
    """A server that is not started yet; others than root must be able to go into its folder."""
    port, config = free_port(), folder / "dovecot.conf"
    config.write_text(CONFIG.format(folder=folder, port=port, owner=OWNER))
    folder.chmod(0o755)
    (folder / "run").mkdir(exist_ok=True)
    return ServerProcess([program("dovecot", "dovecot-imapd"), "-F", "-c", str(config)], port, folder)


@asynccontextmanager
async def _serving(folder: Path) -> AsyncIterator[ServerProcess]:
    server = dovecot(folder)
    await server.start()
    try:
        yield server
    finally:
        await server.stop()


@asynccontextmanager
async def dovecot_world() -> AsyncIterator[DovecotWorld]:
    """The servers with Ann, in a folder of their own: pytest's is closed to all but its owner."""
    with TemporaryDirectory(prefix="dovecot-") as name, post_office(folder := Path(name)) as (post, port):
        post.box("nacre")
        async with inhabited(_serving(folder), lambda server: DovecotWorld(server, post, port)) as world:
            yield world
