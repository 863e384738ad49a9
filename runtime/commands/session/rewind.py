"""`/rewind` goes back in the same session."""

from __future__ import annotations

from nacre.runtime.commands.contract.command import Command, CommandRun, Outcome
from nacre.runtime.commands.contract.wording import counted, shortened
from nacre.runtime.commands.conversation.branching import Rewound, rewind
from nacre.runtime.commands.session.places import SHOWN_CHARS, place_named, places_text
from nacre.runtime.contracts.errors import PlaceUnknown


async def _rewind(run: CommandRun) -> Outcome:
    word, note = [*run.rest.split(None, 1), "", ""][:2]
    if not word:
        return run.said(places_text(run))
    try:
        rewound = await rewind(run.turn, place_named(run, word), note=note)
    except PlaceUnknown as error:
        return run.said(places_text(run, problem=str(error)))
    if rewound.return_place is None:
        return run.said("This is where the conversation is; nothing was changed.")
    return run.said(_text(rewound))


def _text(rewound: Rewound) -> str:
    told = [f"⏪ Went back: {counted(rewound.left, 'message')} left"]
    if rewound.regained:
        told.append(f"{counted(rewound.regained, 'message')} back in view")
    lines = [", ".join(told) + "."]
    if rewound.last_said is None:
        lines.append("The conversation begins anew.")
    else:
        who = "You" if rewound.last_said.speaker == "person" else "Assistant"
        words = shortened(rewound.last_said.text, SHOWN_CHARS)
        lines.append(f"The last words are now: {who}: “{words}”")
    if rewound.files:
        lines.append(f"Files stay as they are: {', '.join(rewound.files)}.")
    lines.append(f"/rewind {rewound.return_place} returns to where you were.")
    return "\n".join(lines)


REWIND = Command(
    name="rewind",
    arguments="[place]",
    help="go back to before something you said; alone it lists what there is to go back to",
    run=_rewind,
)
