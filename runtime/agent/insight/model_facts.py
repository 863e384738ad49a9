"""What the current model would be sent."""

from __future__ import annotations

from collections.abc import Callable

from nacre.memory.workspace.workspace import ContextFile, ContextFiles
from nacre.runtime.contracts.budget import FALLBACK_WINDOW_TOKENS
from nacre.runtime.contracts.clock import Clock, epoch_ms
from nacre.runtime.contracts.policy import ChatPolicy
from nacre.runtime.models.tokenizer import count_tokens_for, estimate_tokens
from nacre.runtime.settings.config import Config
from nacre.runtime.storage.storage import storage_of
from nacre.runtime.turn.context import FULL_TOOLS_TOKENS, SMALL_WINDOW_TOOLS
from nacre.runtime.turn.system_prompt import file_limits


def token_counter(model_name: str) -> Callable[[str], int]:
    """A token counter like the runtime's for this model; an estimate for the offline responder."""
    return count_tokens_for(model_name) if model_name else estimate_tokens


def fitting_note_tools(window_tokens: int) -> tuple[str, ...]:
    """The tools for notes that a small window has room for; empty if it has room for all."""
    return SMALL_WINDOW_TOOLS if window_tokens < FULL_TOOLS_TOKENS else ()


async def workspace_files(
    config: Config, now: Clock, *, window_tokens: int = FALLBACK_WINDOW_TOKENS
) -> tuple[ContextFile, ...]:
    """The workspace files as they appear in the owner's private chats, cut as a window cuts them."""
    per_file_chars, total_chars = file_limits(config.settings.agent, window_tokens)
    policy = ChatPolicy(chat_kind="direct", is_owner=True, session_key_is_private=True)
    files = ContextFiles(storage_of(config).workspace(), now_ns=lambda: epoch_ms(now()) * 1_000_000)
    return await files.read(policy.context_files(), per_file_chars=per_file_chars, total_chars=total_chars)
