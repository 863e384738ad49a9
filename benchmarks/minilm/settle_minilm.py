"""Make an exported model quick to open: the second step after `benchmarks/minilm/export_minilm.py`.

    python benchmarks/minilm/settle_minilm.py build/export/model memory/embedders/all-MiniLM-L6-v2

Opening a model took most of what embedding one question costs in a cold process: reading one large file into
memory, and rewriting the graph. Here onnxruntime does the rewriting once (its level "extended", which depends
on no processor) and writes the weights to a file of their own, which is mapped into memory and not copied.
The vectors stay the same bit for bit, which is checked. The vocabulary becomes a list, a token a line, which
loads in half the time of `tokenizer.json`.

Writes `model.onnx`, `weights.bin` and `vocab.txt`; needs only what running Nacre needs.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import numpy
from onnxruntime import GraphOptimizationLevel, InferenceSession, SessionOptions

LEAST_BYTES = 1024
"""Smaller tensors stay in the graph."""

LENGTHS_TOKENS = (3, 10, 31, 100, 256)
FIRST_WORD = 1996
"""The ids above it are whole words, mostly."""


def settle(source: Path, target: Path) -> None:
    """Rewrites the graph of `source/model.onnx` once and puts its weights beside it."""
    options = SessionOptions()
    options.graph_optimization_level = GraphOptimizationLevel.ORT_ENABLE_EXTENDED
    options.optimized_model_filepath = str(target / "model.onnx")
    options.add_session_config_entry("session.optimized_model_external_initializers_file_name", "weights.bin")
    options.add_session_config_entry(
        "session.optimized_model_external_initializers_min_size_in_bytes", str(LEAST_BYTES)
    )
    InferenceSession(source / "model.onnx", options, providers=["CPUExecutionProvider"])


def write_vocabulary(source: Path, target: Path) -> None:
    """The tokens of `source/tokenizer.json`, one a line, in the order of their ids."""
    ids: dict[str, int] = json.loads((source / "tokenizer.json").read_text(encoding="utf-8"))["model"][
        "vocab"
    ]
    tokens = sorted(ids, key=ids.__getitem__)
    if [ids[token] for token in tokens] != list(range(len(tokens))):
        raise SystemExit("The ids of the tokens have gaps: a list cannot stand for them.")
    (target / "vocab.txt").write_text("".join(f"{token}\n" for token in tokens), encoding="utf-8")


def differing(source: Path, target: Path) -> int:
    """How many of some made-up texts have another vector than before."""
    before = InferenceSession(source / "model.onnx", providers=["CPUExecutionProvider"])
    options = SessionOptions()
    options.graph_optimization_level = GraphOptimizationLevel.ORT_DISABLE_ALL
    after = InferenceSession(target / "model.onnx", options, providers=["CPUExecutionProvider"])
    random, count = numpy.random.default_rng(1), 0
    for tokens in LENGTHS_TOKENS:
        ids = random.integers(FIRST_WORD, FIRST_WORD + 10_000, size=(1, tokens))
        feed = {"input_ids": ids, "attention_mask": numpy.ones_like(ids)}
        count += not numpy.array_equal(before.run(None, feed)[0], after.run(None, feed)[0])
    return count


def main() -> None:
    """Settles the model and says whether its vectors stayed."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("source", type=Path, help="folder with the exported model.onnx and tokenizer.json")
    parser.add_argument("target", type=Path)
    arguments = parser.parse_args()
    arguments.target.mkdir(parents=True, exist_ok=True)
    settle(arguments.source, arguments.target)
    write_vocabulary(arguments.source, arguments.target)
    count = differing(arguments.source, arguments.target)
    print(f"{count} of {len(LENGTHS_TOKENS)} texts have another vector than before")
    if count:
        raise SystemExit(1)


if __name__ == "__main__":
    main()
