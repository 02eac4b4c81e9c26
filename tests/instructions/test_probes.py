"""Rows on operands from a seed, against what an H200 answered (scripts/record_probes.py)."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest

import scalar_forms
import sparse_forms
import weft
from probes import BATCH, WARPS_PER_BLOCK, Probe, batches, checksum, module, operands
from recorded import GOLDEN

SAMPLES = np.load(GOLDEN / "probe_samples.npz")
SUMS = np.load(GOLDEN / "probe_sums.npz")
SPARSE, SCALAR = sparse_forms.probes(), scalar_forms.probes()
QUICK = [p for p in SPARSE if p.operands[-1] != "raw"][::4]
"""One in four of the sparse forms: each is half a second of compiling."""


@cache
def kernel(probe: Probe) -> weft.Kernel:
    return weft.load_ptx(module([probe])).kernel("p0")


def simulated(probe: Probe, words: np.ndarray) -> np.ndarray:
    """Results of a probe on the simulated GPU."""
    out = np.zeros((len(words), probe.results, 32), np.uint32)
    kernel(probe)[-(-len(words) // WARPS_PER_BLOCK), 32 * WARPS_PER_BLOCK](words, out, len(words))
    return out


def ids(probe: Probe) -> str:
    return probe.text.partition(" ")[0] + f"-{probe.seed:08x}"


@pytest.mark.parametrize("probe", [*QUICK, *SCALAR], ids=ids)
def test_recorded_samples(probe: Probe) -> None:
    want = SAMPLES[probe.name]
    words = operands(probe)[: len(want)].copy()
    np.testing.assert_array_equal(simulated(probe, words), want, err_msg=probe.name)


@pytest.mark.slow
@pytest.mark.parametrize("probe", [*SPARSE, *SCALAR], ids=ids)
def test_recorded_checksums(probe: Probe) -> None:
    sums = SUMS[probe.name]
    for n, words in enumerate(batches(probe, len(sums))):
        found = checksum(simulated(probe, words))
        assert found == sums[n], f"{probe.name}: a result of batch {n} of {BATCH} differs"


def test_the_document_says_how_many() -> None:
    text = " ".join((GOLDEN.parents[2] / "docs" / "instructions.md").read_text().split())
    reductions = len(scalar_forms.reductions())
    rest = len(SCALAR) - reductions
    counts = f"{len(SPARSE)} forms of `mma.sp`, {reductions} of `cp.reduce`, {rest} scalar ones"
    assert counts in text
    assert all(len(SUMS[p.name]) * BATCH == 131_072 for p in (*SPARSE, *SCALAR))
    assert "131,072 warps of each form" in text
