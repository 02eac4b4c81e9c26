"""Answers of an H200: recorded operands and results of scalar instruction forms."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache

import numpy as np

from folders import TESTS

GOLDEN = TESTS / "golden" / "hardware"
SETS = (("ops.json", "scalar_samples.npz"), ("convert_ops.json", "convert_samples.npz"))


@dataclass(frozen=True)
class Sample:
    """One opcode with its operands and results as bit patterns."""

    opcode: str
    inputs: list[np.ndarray]
    output: np.ndarray


@cache
def _archive(name: str) -> dict[str, np.ndarray]:
    with np.load(GOLDEN / name) as archive:
        return {key: archive[key] for key in archive.files}


def names() -> list[str]:
    """All recorded opcodes."""
    return [name for ops, _ in SETS for name in json.loads((GOLDEN / ops).read_text())]


def sample(opcode: str) -> Sample:
    """The recording of one opcode."""
    for ops, archive in SETS:
        kinds = json.loads((GOLDEN / ops).read_text()).get(opcode)
        if kinds is not None:
            data = _archive(archive)
            joint = f"in:{'+'.join(kinds[0])}:"
            inputs = [
                data[f"{joint}{i}"] if f"{joint}{i}" in data else data[f"in:{kind}:{i}"]
                for i, kind in enumerate(kinds[0])
            ]
            return Sample(opcode, inputs, data[f"out:{opcode}"])
    raise KeyError(opcode)
