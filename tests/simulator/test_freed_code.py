"""Machine code that no kernel needs any more is freed."""

from __future__ import annotations

import gc
from typing import Any

import llvmlite.binding as llvm
import numpy as np
import pytest

import weft
from weft.device import base, jit
from weft.device.sim.run import module, shared_code
from weft.kernels import kernel as kernels
from weft.kernels import module as modules
from weft.ptx.model import PtxModule

SOURCE = """
__global__ void add(int *x) {{ x[threadIdx.x] += {number}; }}
template <int N> __global__ void times(int *x) {{ x[threadIdx.x] *= N; }}
"""
SHARES = "__global__ void sum(int *x) {{ x[threadIdx.x] += {number}; }}"


def _engines() -> list[Any]:
    """The machine code of kernels in this process; batches that drafts share are apart."""
    gc.collect()
    every = gc.get_objects()
    shared = {id(each.engine) for each in every if type(each) is jit.LoadedLibrary}
    return [e for e in every if type(e) is llvm.ExecutionEngine and id(e) not in shared]


def _since(before: list[Any]) -> int:
    """The kernels whose code is new; those before are held, so that no number is used again."""
    old = {id(each) for each in before}
    return sum(id(each) not in old for each in _engines())


def _modules() -> list[Any]:
    """The parsed PTX of this process."""
    gc.collect()
    return [each for each in gc.get_objects() if type(each) is PtxModule]


def _launch(kernel: Any, threads: int = 4) -> int:
    x = np.ones(32, np.int32)
    kernel[1, threads](x)
    return int(x[0])


@pytest.fixture(autouse=True)
def few_objects() -> None:
    """Leave the objects of tests before out of searches: there are millions."""
    gc.collect()
    gc.freeze()


@pytest.fixture(autouse=True)
def drafts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WEFT_DRAFTS", "1")  # the code is not the point here


def test_code_of_kernels_that_are_dropped() -> None:
    held = [weft.cuda(SOURCE.format(number=n)).add for n in (70, 80)]
    before = _engines()
    assert [_launch(each) for each in held] == [71, 81]
    assert _since(before) == 2
    held.pop()
    assert _since(before) == 1
    assert _launch(held[0]) == 71, "the other one still runs"
    held.clear()
    assert _since(before) == 0


def test_code_of_block_sizes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "REMEMBERED", 2)
    monkeypatch.setattr(kernels, "REMEMBERED", 0)  # a prepared launch keeps its code
    kernel = weft.cuda(SOURCE.format(number=5)).add
    before = _engines()
    for threads in (1, 2, 3, 4, 1):
        assert _launch(kernel, threads) == 6
        assert _since(before) <= 2


def test_parsed_ptx_of_older_programs(monkeypatch: pytest.MonkeyPatch) -> None:
    """A kernel that is compiled again, for another block size, is parsed again."""
    monkeypatch.setattr(base, "PARSED", 2)
    held = [weft.cuda(SOURCE.format(number=n)).add for n in (90, 91, 92)]
    before = {id(each) for each in _modules()}
    assert [_launch(each, 3) for each in held] == [91, 92, 93]
    assert sum(id(each) not in before for each in _modules()) <= 2
    assert _launch(held[0], 5) == 91


def test_code_of_instances_of_templates(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(modules, "REMEMBERED", 2)
    templates = weft.cuda(SOURCE.format(number=6))
    before = _engines()
    for n in (3, 4, 5, 6):
        assert _launch(templates.kernel(f"times<{n}>")) == n
        assert _since(before) <= 2


def test_code_that_drafts_share(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shared_code, "RECENT", 1)
    shared_code.forget()
    held = [weft.cuda(SHARES.format(number=n)).sum for n in (7, 8, 9)]
    assert [_launch(each, 32) for each in held] == [8, 9, 10]
    gc.collect()
    used = len(shared_code._loaded)
    assert used > 1, "each kernel has functions of its own"
    del held[1]
    gc.collect()
    assert 0 < len(shared_code._loaded) < used
    assert [_launch(each, 32) for each in held] == [8, 10]
    held.clear()
    gc.collect()
    assert len(shared_code._loaded) <= 1
