"""Holds a model to the contract of `model.py`, whoever wrote it."""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator, AsyncIterator

from nacre.runtime.contracts.errors import BadModelReply, ModelError
from nacre.runtime.contracts.model import TextDelta
from nacre.sessions.contracts.messages import AssistantMessage

log = logging.getLogger(__name__)


async def held_to_contract(
    items: AsyncIterator[TextDelta | AssistantMessage], *, model_name: str
) -> AsyncIterator[TextDelta | AssistantMessage]:
    """A model's answer up to its final message; whatever else a model does becomes a `ModelError`.

    A bot author's model that breaks the contract must cost neither the person's words nor the notes
    that a flush would write. The stream is closed behind the final message.

    Raises:
        ModelError: the model's own, or `BadModelReply` for what the contract does not know.
    """
    try:
        async for item in items:
            if not isinstance(item, TextDelta | AssistantMessage):
                raise BadModelReply(f"The model {model_name!r} answered with a {type(item).__name__}.")
            yield item
            if isinstance(item, AssistantMessage):
                return
        raise BadModelReply(
            f"The answer of the model {model_name!r} ended without a final message. Ask again."
        )
    except (ModelError, AssertionError):
        # An assertion is a test's word about the runtime, such as a scripted model's.
        raise
    except Exception as error:
        log.exception("the model %s broke its contract", model_name)
        raise BadModelReply(
            f"The model {model_name!r} failed with {type(error).__name__}, which is no model error. "
            "The log has the trace.",
            detail=str(error),
        ) from error
    finally:
        if isinstance(items, AsyncGenerator):
            await items.aclose()
