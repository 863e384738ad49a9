"""What comes next without being asked, in lines for people."""

from __future__ import annotations

from datetime import datetime

from nacre.bridges.schedule.beats import next_beat
from nacre.bridges.schedule.timetable import Timetable
from nacre.bridges.schedule.when import shown
from nacre.runtime.ledger.ledger import owner_chats
from nacre.runtime.settings.sections.channels import HeartbeatSettings


async def coming_lines(
    timetable: Timetable, agent_id: str, settings: HeartbeatSettings, now: datetime
) -> tuple[str, str]:
    """The next heartbeat and the next job of an agent."""
    beat = next_beat(settings, await timetable.last_beat(agent_id))
    if beat is None:
        heartbeat = "off"
    elif not await owner_chats(timetable.tables, agent_id, target=settings.target):
        heartbeat = "when the owner has written in private"
    else:
        heartbeat = shown(max(beat, now))
    coming = [job for job in await timetable.jobs(agent_id) if job.due is not None]
    if not coming or coming[0].due is None:
        return f"💓 Next heartbeat: {heartbeat}", "⏰ Jobs: none"
    more = f" · {len(coming)} jobs" if len(coming) > 1 else ""
    return f"💓 Next heartbeat: {heartbeat}", f"⏰ Next job: {coming[0].id}, {shown(coming[0].due)}{more}"
