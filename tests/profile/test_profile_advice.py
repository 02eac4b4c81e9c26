"""Advice: each rule names the kernel that it is for, with its line, and passes over its like."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import weft
from advised_kernels import SOURCE, Row, rows
from weft.device import models
from weft.measure.profile.advice.advice import advise, rules

pytestmark = pytest.mark.sim
ROWS = [pytest.param(row, id=str(row)) for row in rows()]


@pytest.fixture(scope="module")
def module() -> weft.CudaModule:
    return weft.cuda(SOURCE)


def _profile(module: weft.Module, row: Row) -> weft.Profile:
    kernel = module.kernel(row.kernel)
    return weft.profile(kernel[row.grid, row.block, row.shared], *row.args, device=row.gpu)


@pytest.mark.parametrize("row", ROWS)
def test_a_rule_names_what_it_is_for(module: weft.Module, row: Row) -> None:
    found = [a for a in _profile(module, row).advice if a.rule == row.rule]
    assert bool(found) == row.named
    for a in found:
        assert a.gain >= 1.05 and a.evidence and a.change
    if row.line:
        quotes = {SOURCE.splitlines()[a.line - 1] for a in found}
        assert any(row.line in quote for quote in quotes), quotes


def test_every_rule_has_a_kernel_for_and_against_it() -> None:
    for named in (True, False):
        assert {row.rule for row in rows() if row.named == named} == set(rules())


def test_silent_when_there_is_nothing_to_say(module: weft.Module) -> None:
    n = 132 * 8 * 256
    x, y = np.ones(4 * n, np.float32), np.ones(4 * n, np.float32)
    p = weft.profile(module.copy4[132 * 8, 256], x, y)
    assert p.advice == ()
    assert "Advice" not in str(p)


def test_what_the_assembler_spills_is_named(module: weft.Module) -> None:
    p = weft.profile(module.copy[256, 256], *(np.ones(65536, np.float32) for _ in range(2)))
    shape = replace(p.launch, registers=32, spill_stores=96, spill_loads=128)
    found = [a for a in advise(replace(p, launch=shape), models.get("h200")) if a.rule == "spills"]
    assert len(found) == 1 and "96 bytes of stores, 128 of loads" in found[0].evidence


def test_gains_are_of_the_counters(module: weft.Module) -> None:
    """32 ways of conflict are all that keeps this kernel: without them L2 is the bound."""
    x, y = np.ones(65536, np.float32), np.ones(65536, np.float32)
    p = weft.profile(module.kernel("transpose<0>")[64, (32, 32)], x, y)
    q = weft.profile(module.kernel("transpose<1>")[64, (32, 32)], x, y)
    gain = next(a.gain for a in p.advice if a.rule == "bank conflicts")
    assert gain == pytest.approx(p.roofline.bound_seconds / q.roofline.bound_seconds, rel=1e-6)
