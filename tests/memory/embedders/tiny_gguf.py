"""Writes a tiny BERT as a GGUF file (version 3): one layer, a word list, seeded weights.

The layout is that of the format's description in the llama.cpp project. Words share nothing but their own
embedding, so a text is near another one when they share words.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy

WORDS = ("honey", "wax", "bee", "cellar", "invoice", "march", "the", "is", "in", "where", "an", "for", "a")
_DIMENSIONS = 16
_UINT32, _FLOAT32, _BOOL, _STRING, _ARRAY, _INT32 = 4, 6, 7, 8, 9, 5
_ALIGNMENT = 32


def write_tiny_bert(path: Path, *, context_tokens: int = 64) -> None:
    """Writes the model to `path`."""
    tokens = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", *(f"\u2581{word}" for word in WORDS)]
    facts: dict[str, tuple[int, object]] = {
        "general.architecture": (_STRING, "bert"),
        "general.name": (_STRING, "tiny"),
        "bert.context_length": (_UINT32, context_tokens),
        "bert.embedding_length": (_UINT32, _DIMENSIONS),
        "bert.block_count": (_UINT32, 1),
        "bert.feed_forward_length": (_UINT32, 2 * _DIMENSIONS),
        "bert.attention.head_count": (_UINT32, 2),
        "bert.attention.layer_norm_epsilon": (_FLOAT32, 1e-12),
        "bert.attention.causal": (_BOOL, False),
        "bert.pooling_type": (_UINT32, 1),
        "tokenizer.ggml.model": (_STRING, "bert"),
        "tokenizer.ggml.pre": (_STRING, "default"),
        "tokenizer.ggml.token_type_count": (_UINT32, 2),
        "tokenizer.ggml.tokens": (_ARRAY, (_STRING, tokens)),
        "tokenizer.ggml.token_type": (_ARRAY, (_INT32, [3, 2, 3, 3, *[1] * len(WORDS)])),
        "tokenizer.ggml.padding_token_id": (_UINT32, 0),
        "tokenizer.ggml.unknown_token_id": (_UINT32, 1),
        "tokenizer.ggml.cls_token_id": (_UINT32, 2),
        "tokenizer.ggml.bos_token_id": (_UINT32, 2),
        "tokenizer.ggml.eos_token_id": (_UINT32, 3),
        "tokenizer.ggml.seperator_token_id": (_UINT32, 3),
    }
    path.write_bytes(_gguf(facts, _tensors(len(tokens), context_tokens)))


def _tensors(token_count: int, context_tokens: int) -> dict[str, numpy.ndarray]:
    random = numpy.random.default_rng(12)
    size = _DIMENSIONS

    def small(*shape: int) -> numpy.ndarray:
        return random.normal(0, 0.02, shape).astype(numpy.float32)

    def norm(name: str) -> dict[str, numpy.ndarray]:
        return {
            f"{name}.weight": numpy.ones(size, numpy.float32),
            f"{name}.bias": numpy.zeros(size, numpy.float32),
        }

    tensors = {
        "token_embd.weight": random.normal(0, 1, (token_count, size)).astype(numpy.float32),
        "token_types.weight": small(2, size),
        "position_embd.weight": small(context_tokens, size),
        **norm("token_embd_norm"),
    }
    for part in ("attn_q", "attn_k", "attn_v", "attn_output"):
        tensors |= {f"blk.0.{part}.weight": small(size, size), f"blk.0.{part}.bias": small(size)}
    tensors |= norm("blk.0.attn_output_norm") | norm("blk.0.layer_output_norm")
    tensors |= {"blk.0.ffn_up.weight": small(2 * size, size), "blk.0.ffn_up.bias": small(2 * size)}
    tensors |= {"blk.0.ffn_down.weight": small(size, 2 * size), "blk.0.ffn_down.bias": small(size)}
    return tensors


def _gguf(facts: Mapping[str, tuple[int, object]], tensors: Mapping[str, numpy.ndarray]) -> bytes:
    head = b"GGUF" + struct.pack("<IQQ", 3, len(tensors), len(facts))
    for key, (kind, value) in facts.items():
        head += _text(key) + struct.pack("<I", kind) + _value(kind, value)
    data = b""
    for name, tensor in tensors.items():
        shape = tensor.shape[::-1]
        head += _text(name) + struct.pack(f"<I{len(shape)}QIQ", len(shape), *shape, 0, len(data))
        data += _padded(tensor.tobytes())
    return _padded(head) + data


def _value(kind: int, value: object) -> bytes:
    if kind == _STRING:
        return _text(str(value))
    if kind == _ARRAY:
        assert isinstance(value, tuple)
        inner, items = value
        assert isinstance(items, Sequence)
        return struct.pack("<IQ", inner, len(items)) + b"".join(_value(inner, item) for item in items)
    return struct.pack({_UINT32: "<I", _FLOAT32: "<f", _BOOL: "<?", _INT32: "<i"}[kind], value)


def _text(text: str) -> bytes:
    data = text.encode()
    return struct.pack("<Q", len(data)) + data


def _padded(data: bytes) -> bytes:
    return data + b"\0" * (-len(data) % _ALIGNMENT)
