"""Random chains of lane-wise instructions on the device against their rows, run one by one.

A kernel of such a chain must leave what its rows leave, both when every thread has values of its
own (32 lanes) and when a block is one thread (all values uniform); some inputs and constants are
the same for all threads in either case. Every second chain starts from inputs of all forms of the
lattice.
"""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np
import pytest

import weft
from chains import Chain, N
from structured_chains import StructuredChain


@pytest.mark.draws
@pytest.mark.parametrize(
    "number", [pytest.param(i, marks=[pytest.mark.slow] * (i >= 8)) for i in range(200)]
)
def test_chain(number: int, seed: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("WEFT_CACHE_DIR", str(tmp_path))
    make = StructuredChain if number % 2 else Chain
    chain = make(random.Random(f"{seed} {number}"))
    data = chain.inputs()
    for _ in range(30):
        chain.step()
    text = chain.text()
    wanted = np.concatenate([r.values for r in chain.registers])
    for grid, block in ((N // 32, 32), (N, 1), (1, N)):
        out = np.zeros(len(wanted), np.uint64)
        weft.load_ptx(text).k[grid, block](out, data)
        wrong = np.flatnonzero(out != wanted)
        if len(wrong):
            register, lane = chain.registers[wrong[0] // N], wrong[0] % N
            line = next(
                x for x in chain.lines if f" {register.name}," in x or f"|{register.name}," in x
            )
            pytest.fail(
                f"chain {seed} {number}, block {block}: {line} gave {int(out[wrong[0]]):#x} in "
                f"thread {lane}, wanted {int(wanted[wrong[0]]):#x}\n{text}"
            )
