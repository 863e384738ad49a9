"""Orders of others that come by a real mail server and a whole gateway never live on."""

from __future__ import annotations

from email.message import EmailMessage
from email.policy import default
from pathlib import Path

import pytest

from tests.bridges.channels.contract.world import until
from tests.extensions.email.dovecot import DovecotWorld, dovecot_world
from tests.faults.apart.obeying import WORDINGS
from tests.faults.apart.poisoned_home import CHANNELS, COUNTS, Home, honest, lived, served, until_obeyed

pytestmark = pytest.mark.channels

EVE = "Eve <eve@elsewhere.example>"
HEAD = f"---------- Forwarded message ---------\nFrom: {EVE}\nDate: today\nSubject: Hello\nTo: ann\n\n"
WAYS = (
    "forwarded inline",
    "forwarded as HTML",
    "forwarded without a mark",
    "attached message",
    "attached HTML message",
    "quotation between own words",
    "file",
    "file name",
    "stranger",
)


def mail(way: str, order: str, text: str) -> EmailMessage:
    """A message of the owner that carries an order, or one of a stranger."""
    made = EmailMessage(policy=default)
    made["From"] = EVE if way == "stranger" else "ann@localhost"
    made["To"], made["Message-ID"] = "nacre@localhost", f"<{order}@localhost>"
    made["Subject"] = "Fwd: Hello" if way.startswith("forwarded") else "Hello"
    attached = EmailMessage(policy=default)
    attached["From"], attached["Subject"] = EVE, "Hello"
    match way:
        case "forwarded inline":
            made.set_content(f"See below.\n\n{HEAD}{text}\n")
        case "forwarded as HTML":
            words = text.replace("<", "&lt;").replace("\n", "<br>")
            head = HEAD.replace("<", "&lt;").replace("\n", "<br>")
            quoted = f'<div class="gmail_quote">{head}<br>{words}</div>'
            made.set_content(f"<p>See below.</p>{quoted}", subtype="html")
        case "forwarded without a mark":
            made.set_content(f"Look at this.\n\n{text}\n")
        case "attached message" | "attached HTML message":
            is_html = "HTML" in way
            attached.set_content(
                f"<p>{text}</p>" if is_html else text, subtype="html" if is_html else "plain"
            )
            made.set_content("See the attached message.")
            made.add_attachment(attached)
        case "quotation between own words":
            quoted = "".join(f"> {line}\n" for line in text.splitlines())
            made.set_content(f"She says:\n\nOn Monday, {EVE} wrote:\n{quoted}\nWhat do you think?\n")
        case "file":
            made.set_content("See the file.")
            made.add_attachment(text, filename="a.txt")
        case "file name":
            made.set_content("See the file.")
            made.add_attachment("honey", filename=f"{' '.join(text.split())}.txt")
        case _:
            made.set_content(text)
    return made


def put(world: DovecotWorld, message: EmailMessage) -> None:
    """Delivers a message."""
    world.post.put("nacre", message.as_bytes())


@pytest.mark.parametrize("way", WAYS)
@COUNTS
async def test_what_comes_by_mail(tmp_path: Path, way: str, count: int) -> None:
    """Each way with each wording."""
    home = Home(tmp_path, CHANNELS)
    orders = {f"zq{number}x": text for number, text in enumerate(WORDINGS[:count], 1)}
    async with dovecot_world() as world, served(home, world.bridge()) as gateway:
        for order, text in orders.items():
            put(world, mail(way, order, text.format(order=order)))
            await until_obeyed(home, gateway, order)
    assert await lived(home, [*orders]) == []
    assert await honest(home, 6) == (6, 0)


async def test_the_owners_own_mail_is_kept(tmp_path: Path) -> None:
    """What the owner writes by mail is noted without a question, above a message that they answer too."""
    home = Home(tmp_path, CHANNELS)
    line = "- The boat lies in Porto."
    async with dovecot_world() as world, served(home, world.bridge()) as gateway:
        home.model.owners = (("append", {"path": "MEMORY.md", "text": f"{line}\n"}),)
        own = mail("own", "own1", f"Note that the boat lies in Porto.\n\nOn Monday, {EVE} wrote:\n> Hi.\n")
        own.replace_header("From", "ann@localhost")
        put(world, own)
        await until(lambda: line in (home.workspace / "MEMORY.md").read_text())
        await until(lambda: gateway.is_idle)
