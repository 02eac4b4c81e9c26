"""Differences between releases of NVRTC that weft removes."""

from __future__ import annotations

import numpy as np
import pytest

import weft
from weft.source import nvrtc

LAMBDA = """
template <int N, class F> __device__ void each(F f) { for (int i = 0; i < N; i++) f(i); }
extern "C" __global__ void k(float* y) { each<4>([&](auto b) { y[b] = b; }); }
"""
LOG = """a.cu(3): error: A function without annotations is considered a host function
  extern "C" __global__ void k(float* y) { each<4>([&](auto b) { y[b] = b; }); }
"""


def test_a_generic_lambda() -> None:
    y = np.zeros(4, np.float32)
    weft.cuda(LAMBDA).k[1, 1](y)
    assert y.tolist() == [0, 1, 2, 3]


@pytest.mark.parametrize(("log", "tries"), [(LOG, 2), (LOG.replace("auto", "int"), 1), ("no", 1)])
def test_a_release_that_takes_lambdas_for_host_functions(
    monkeypatch: pytest.MonkeyPatch, log: str, tries: int
) -> None:
    """A refusal for this reason alone is tried again, once, with the flag."""
    seen: list[list[str]] = []

    def refuse(source: str, name: str, options: list[str], expressions: object) -> None:
        seen.append(options)
        raise nvrtc.NvrtcRefused(log)

    monkeypatch.setattr(nvrtc, "_compile", refuse)
    with pytest.raises(nvrtc.NvrtcRefused):
        nvrtc.compile(LAMBDA, "a.cu", ["--std=c++17"])
    assert len(seen) == tries
    assert [any("default-execution" in o for o in options) for options in seen] == [False, True][
        :tries
    ]
