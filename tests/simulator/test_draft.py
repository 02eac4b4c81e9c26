"""Drafts: the same bits from code that is made sooner, kept apart from the real one."""

from __future__ import annotations

import contextlib
import ctypes
import threading
from typing import Any

import numpy as np
import pytest

import weft
from weft.device import jit
from weft.device.sim.run import draft

pytestmark = pytest.mark.sim

SOURCE = r"""
__global__ void mix(const float* x, float* y, int n) {
    __shared__ float tile[64];
    int i = blockIdx.x * 64 + threadIdx.x;
    tile[threadIdx.x] = i < n ? x[i] : 0.0f;
    __syncthreads();
    float sum = 0.0f;
    for (int k = 0; k <= threadIdx.x % 7; ++k) sum = fmaf(tile[(threadIdx.x + k) % 64], 1.7f, sum);
    sum += __shfl_xor_sync(0xffffffffu, sum, 3);
    if (i < n) y[i] = expf(sum) / (1.0f + sum * sum);
}
"""


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> list[bool]:
    """For each piece of code that is made: true for a draft."""
    monkeypatch.setenv("WEFT_CACHE_DIR", str(tmp_path_factory.mktemp("cache")))
    kinds, real = [], jit.compile_object

    def compile_object(text: str, *, draft: bool = False, **how: Any) -> bytes:
        kinds.append(draft)
        return real(text, draft=draft, **how)

    monkeypatch.setattr(jit, "compile_object", compile_object)
    return kinds


def test_a_draft_gives_the_same_bits(made: list[bool]) -> None:
    x = np.random.default_rng(1).standard_normal(1000).astype(np.float32)
    results = []
    for wanted in (True, False):
        y = np.zeros_like(x)
        with draft.drafts() if wanted else contextlib.nullcontext():
            weft.cuda(SOURCE).mix[16, 64](x, y, x.size)
        results.append(y)
    # The draft has up to three parts: its own code, and helpers and outlined instructions that no
    # earlier kernel has brought.
    *drafts, full = made
    assert drafts and all(drafts), "it has code of its own"
    assert not full, "a draft is not served where the real code is wanted"
    assert results[0].tobytes() == results[1].tobytes() and results[0].any()


CALLS = f"""
define internal {jit.NONE_SAVED}i32 @inner(ptr %a, ptr %b, i32 %c) noinline {{
  %x = load i32, ptr %a
  %y = load i32, ptr %b
  %s = add i32 %x, %y
  %t = add i32 %s, %c
  ret i32 %t
}}
define i32 @run(ptr %a, ptr %b) {{
  %r = call {jit.NONE_SAVED}i32 @inner(ptr %a, ptr %b, i32 4)
  ret i32 %r
}}
"""


@pytest.mark.parametrize("kind", [True, False], ids=["draft", "full"])
@pytest.mark.parametrize("passes", [(), None], ids=["plain", "passes"])
def test_arguments_arrive_under_every_convention(kind: bool, passes: tuple[()] | None) -> None:
    code = jit.load_object(jit.compile_object(CALLS, draft=kind, passes=passes))
    numbers = (ctypes.c_int * 2)(1, 2)
    assert code.run(ctypes.addressof(numbers), ctypes.addressof(numbers) + 4) == 7


def test_drafts_are_for_the_thread_that_asks() -> None:
    seen = []
    with draft.drafts():
        other = threading.Thread(target=lambda: seen.append(draft.chosen()))
        other.start()
        other.join()
        assert draft.chosen() is draft.Tier.DRAFT
    assert seen == [draft.Tier.FULL] and draft.chosen() is draft.Tier.FULL


def test_the_environment_asks_for_drafts(monkeypatch: pytest.MonkeyPatch) -> None:
    tiers = {"1": draft.Tier.DRAFT, "0": draft.Tier.FULL, "": draft.Tier.BOTH}
    for value, tier in tiers.items():
        monkeypatch.setenv("WEFT_DRAFTS", value)
        assert draft.chosen() is tier
