"""What an OpenAI-protocol provider writes; see `nacre.runtime.models.scripted_provider`."""

from nacre.runtime.models.scripted_provider import (
    EMBEDDING_DIMENSIONS as EMBEDDING_DIMENSIONS,
    Step as Step,
    chunks as chunks,
    drop as drop,
    embedding as embedding,
    embeddings as embeddings,
    error as error,
    overflow as overflow,
    reply as reply,
    stall as stall,
    tool_calls as tool_calls,
    usage as usage,
    whole as whole,
)
