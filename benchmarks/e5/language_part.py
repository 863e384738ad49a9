"""Learn what of the vectors of the model that ships is the language of a text, and not its subject.

    python -m benchmarks.e5.language_part [memory/embedders/multilingual-e5-small/languages.bin]

Reads `languages.toml`, the same matters told and asked in several languages. The means of each language's
questions and of its notes, less the means of all, span the directions in which languages differ (Yang et al.
2021, https://arxiv.org/abs/2109.04727); the first few of them are kept. Writes float32, little-endian: the
relatedness of a question and its note, the mean of the questions, the mean of the notes, the directions.
"""

from __future__ import annotations

import argparse
import tomllib
from pathlib import Path
from typing import Any

import numpy as np

from nacre.memory.embedders.e5_model import MODEL_FOLDER, PASSAGE, QUESTION, E5Model

DIRECTIONS = 7
"""With 4 fewer, and with 14 no more, strangers in held-out languages are told from answers."""


def learned(questions: np.ndarray[Any, Any], notes: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """The rows of the file, from vectors by matter and language."""
    means = questions.mean((0, 1)), notes.mean((0, 1))
    of_languages = np.concatenate(
        [side.mean(0) - mean for side, mean in zip((questions, notes), means, strict=True)]
    )
    directions = np.linalg.svd(of_languages)[2][:DIRECTIONS]
    subjects = questions - means[0]
    subjects -= subjects @ directions.T @ directions
    subjects /= np.linalg.norm(subjects, axis=2)[..., None]
    matters, languages = questions.shape[:2]
    related = np.mean(
        [
            subjects[matter, asked] @ (notes[matter, told] - means[1])
            for matter in range(matters)
            for asked in range(languages)
            for told in range(languages)
        ]
    )
    return np.concatenate([[related], *means, *directions]).astype("<f4")


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("target", type=Path, nargs="?", default=MODEL_FOLDER / "languages.bin")
    target: Path = parser.parse_args().target
    pairs = tomllib.loads(Path(__file__).with_name("languages.toml").read_text(encoding="utf-8"))["pair"]
    matters = list(dict.fromkeys(pair["matter"] for pair in pairs))
    model = E5Model(many=True)
    sides = (
        np.array(
            [
                [model.vector(prefix + pair[side]) for pair in pairs if pair["matter"] == matter]
                for matter in matters
            ]
        )
        for prefix, side in ((QUESTION, "question"), (PASSAGE, "note"))
    )
    target.write_bytes(learned(*sides).tobytes())


if __name__ == "__main__":
    main()
