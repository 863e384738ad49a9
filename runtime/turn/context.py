"""What the model reads before the conversation: workspace files, the day, and where recalled notes stand.

Stable parts come first and stay byte for byte the same from call to call, so that a provider's
prompt cache holds; what moves with the day or the chat comes last.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from pathlib import Path

from nacre.memory.workspace.workspace import ContextFile, read_context_files
from nacre.prompts import render
from nacre.runtime.contracts.model import SystemPrompt, ToolSpec
from nacre.runtime.contracts.policy import ChatPolicy
from nacre.runtime.settings.agents import AgentSettings

OPTIONAL_FILES = ("MEMORY.md",)
"""Files whose absence is no news: they are left out instead of marked as missing."""


async def system_prompt(
    *,
    workspace: Path,
    policy: ChatPolicy,
    settings: AgentSettings,
    tools: Sequence[ToolSpec],
    cites: bool,
    changing: str,
) -> tuple[SystemPrompt, tuple[str, ...]]:
    """The system prompt of one chat, and a sentence for each file that was cut."""
    files = await read_context_files(
        workspace,
        policy.context_files(),
        per_file_chars=settings.bootstrap_max_chars,
        total_chars=settings.bootstrap_total_max_chars,
    )
    shown = [file for file in files if _is_shown(file)]
    tool_lines = "\n".join(f"- `{tool.name}`: {tool.description}" for tool in tools) or "(none)"
    if policy.is_private:
        head = render(
            "system",
            tools=tool_lines,
            citations=render("memory_citations_on" if cites else "memory_citations_off"),
            workspace=str(workspace),
        )
    else:
        head = render("system_group", tools=tool_lines, workspace=str(workspace))
    texts = "\n\n".join(render("context_file", name=file.name, text=file.text) for file in shown)
    stable = f"{head}\n\n{render('context_files', files=texts)}" if shown else head
    notices = tuple(
        f"{file.name} is too long for the context: "
        f"{file.injected_chars} of {file.raw_chars} characters went in."
        for file in files
        if file.truncated
    )
    return SystemPrompt(stable=stable, changing=changing), notices


def changing_part(*, now: datetime, channel: str, chat_kind: str, model_name: str) -> str:
    """The part of the system prompt that moves: the owner's date and zone, the chat, the model."""
    return render(
        "changing",
        date=now.strftime("%Y-%m-%d"),
        weekday=now.strftime("%A"),
        time_zone=str(now.tzinfo),
        channel=channel or "unknown",
        chat_kind=chat_kind,
        model=model_name,
    )


def _is_shown(file: ContextFile) -> bool:
    return bool(file.text.strip()) and not (file.missing and file.name in OPTIONAL_FILES)
