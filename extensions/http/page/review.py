"""Notes that wait for the owner: each as a diff, to accept, edit or reject."""

from __future__ import annotations

from starlette.responses import Response

from nacre.extensions.http.page.visit import Visit
from nacre.memory.files.proposals.note_change import ProposalConflict, ProposalUnknown
from nacre.memory.files.proposals.review_queue import ReviewQueue


async def review(visit: Visit) -> Response:
    """All that waits, the oldest first."""
    return await _shown(visit, "")


async def answer(visit: Visit) -> Response:
    """Accepts, with the text as it was edited, or rejects one of them."""
    queue = _queue(visit)
    try:
        found = await queue.find(visit.field("proposal"))
        if visit.field("answer") == "reject":
            await queue.reject(found)
            return await _shown(visit, f"Rejected: {found.write.path} stays as it is.")
        text = visit.field("text").replace("\r\n", "\n")
        edited = text if "text" in visit.form and text != found.write.text else None
        await queue.accept(found, visit.home.workspace, edited=edited)
        visit.home.notes_changed()
        return await _shown(visit, f"Written into {found.write.path}.")
    except (ProposalConflict, ProposalUnknown) as error:
        return await _shown(visit, str(error), status=409)


async def _shown(visit: Visit, told: str, *, status: int = 200) -> Response:
    queue = _queue(visit)
    waiting = [(each, await queue.diff(each, visit.home.workspace)) for each in await queue.waiting()]
    is_on = visit.home.config.settings.memory.writes == "review"
    return visit.page("review.html", status=status, waiting=waiting, told=told, is_on=is_on, view="review")


def _queue(visit: Visit) -> ReviewQueue:
    config = visit.home.config
    return ReviewQueue(config.folders.proposals, lock_dir=config.state_dir / "locks")
