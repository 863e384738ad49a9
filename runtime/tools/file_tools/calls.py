"""What all calls of the file tools have in common: errors in sentences, keys and passwords asked about."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import replace
from functools import partial
from typing import Any

from nacre.memory.contracts.workspace import FileBusy, PathOutsideRoot
from nacre.memory.files.sources.proposed import WaitsForReview
from nacre.memory.files.sources.secrets import REDACTED, without_new_secrets
from nacre.runtime.tools.toolbox import CallScope, Tool, ToolFailed, ToolOutput

REDACTED_TOLD = f" What looked like a key or a password in it became {REDACTED}, as memory.secrets says."
_FIELDS = ("content", "text", "new_text")


def asks_about_secrets(arguments: Any) -> str:
    """Why the owner is asked before a file tool writes; `""` for a text with no key or password in it."""
    texts = [text for name in _FIELDS if isinstance(text := getattr(arguments, name, None), str)]
    if all(without_new_secrets(text) == text for text in texts):
        return ""
    return (
        f"This writes what looks like a key or a password into {arguments.path}. Approved, it is kept as it "
        "stands; denied, nothing is written."
    )


def became_redacted(wanted: bytes, written: bytes) -> bool:
    """Whether the gate took something out on the way."""
    mark = REDACTED.encode()
    return written.count(mark) > wanted.count(mark)


def approvable(
    tool: Tool, approved: Callable[[Any], Awaitable[ToolOutput]] | None, *, asks_secrets: bool
) -> Tool:
    """A tool that does `approved` for a call that the owner let run; without it, the tool that it was.

    With `asks_secrets` it asks before it writes a key or a password.
    """
    if approved is None:
        return tool
    of_owner = partial(in_sentences, approved)

    async def run(arguments: Any, scope: CallScope) -> ToolOutput:
        return await (of_owner if scope.is_approved else tool.run)(arguments, scope)

    return replace(tool, run=run, needs_approval=asks_about_secrets if asks_secrets else False)


async def in_sentences(
    work: Callable[[Any], Awaitable[ToolOutput]], arguments: Any, _scope: CallScope
) -> ToolOutput:
    """Turns what files can do wrong into a sentence for the model."""
    try:
        return await work(arguments)
    except WaitsForReview as waiting:
        return ToolOutput(text=str(waiting))
    except (PathOutsideRoot, FileBusy) as error:
        raise ToolFailed(str(error)) from error
    except FileNotFoundError as error:
        raise ToolFailed(f"{arguments.path!r} does not exist. Use `list` to see what is there.") from error
    except IsADirectoryError as error:
        raise ToolFailed(f"{arguments.path} is a folder. Use `list` to see what is in it.") from error
    except NotADirectoryError as error:
        raise ToolFailed(f"{arguments.path!r} is not a folder, or leads through a file.") from error
    except FileExistsError as error:
        raise ToolFailed(f"{arguments.path!r} leads through something that is not a folder.") from error
    except OSError as error:
        raise ToolFailed(f"{arguments.path!r} cannot be used: {error.strerror or error}.") from error
