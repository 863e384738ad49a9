"""What the archives (XEP-0313) of the account and of rooms hold. Edge to slixmpp.

An archive is named by the room's address, the account's own by nothing. What it
holds are stanzas with `mam_result`.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator
from datetime import datetime, timedelta
from typing import Any

from slixmpp import JID
from slixmpp.exceptions import IqError, IqTimeout

from nacre.extensions.xmpp.client import XmppClient

log = logging.getLogger(__name__)

ANSWER_SECONDS = 30.0
FIRST_LOOK_BACK = timedelta(minutes=10)
"""How far back an archive is read where there is no cursor yet."""
FORGOTTEN_LOOK_BACK = timedelta(days=1)
"""How far back it is read when it does not know the cursor any more."""
PAGE = 50


async def behind(client: XmppClient, archive: str, *, after: str, now: datetime) -> AsyncIterator[Any]:
    """What an archive holds behind an id, the oldest first."""
    start = None if after else now - FIRST_LOOK_BACK
    while True:
        try:
            page, last, is_last = await _page(
                client, archive, start=start, rsm={"after": after} if after else {}
            )
        except IqError as error:
            if not after or error.condition != "item-not-found":
                log.warning("the archive of %s does not answer: %s", archive or "the account", error)
                return
            after, start = "", now - FORGOTTEN_LOOK_BACK
            continue
        for result in page:
            yield result
        if is_last or not last:
            return
        after, start = last, None


async def newest(client: XmppClient, archive: str, *, with_jid: str) -> AsyncIterator[Any]:
    """What an archive holds of a chat, page by page from the newest."""
    results = client.stream.plugin["xep_0313"].iterate(
        jid=JID(archive) if archive else None,
        with_jid=JID(with_jid) if with_jid else None,
        reverse=True,
        rsm={"max": PAGE},
    )
    while (result := await client.unless_over(anext(results, None))) is not None:
        if result["from"].bare in _own(client, archive):
            yield result


async def has_archive(client: XmppClient, jid: str) -> bool:
    """Whether an account or a room keeps one."""
    asking = client.stream.plugin["xep_0030"].get_info(jid=JID(jid), timeout=ANSWER_SECONDS)
    try:
        info = await client.unless_over(asking)
    except (IqError, IqTimeout):
        return False
    return "urn:xmpp:mam:2" in info["disco_info"]["features"]


async def _page(
    client: XmppClient,
    archive: str,
    *,
    rsm: dict[str, str],
    start: datetime | None = None,
) -> tuple[list[Any], str, bool]:
    """A page, the id to go on from, and whether it is the last one."""
    found: list[Any] = []
    asking = client.stream.plugin["xep_0313"].retrieve(
        jid=JID(archive) if archive else None,
        start=start,
        rsm={"max": PAGE, **rsm},
        callback=lambda iq: found.extend(iq["mam"]["results"]),
        timeout=ANSWER_SECONDS,
    )
    answer = await client.unless_over(asking)
    page = [result for result in found if result["from"].bare in _own(client, archive)]
    fin = answer["mam_fin"]
    return page, fin["rsm"]["last"] or "", fin.xml.get("complete") == "true" or not found


def _own(client: XmppClient, archive: str) -> set[str]:
    """Who may answer for an archive: whoever guesses the id of a question could send answers of their own."""
    return {archive} if archive else {"", client.stream.boundjid.bare}
