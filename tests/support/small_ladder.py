"""A ladder of one's own with one rung, and a climb with times as a GPU gives them."""

from __future__ import annotations

from typer.testing import CliRunner, Result

from weft.cli import app
from weft.climbing.records import Climb
from weft.values.climb import RungResult, Time

OP = """
import weft
op = weft.Op("twice", "x:f32[n] -> y:f32[n]", lambda x: 2 * x, [weft.Case(n=128), weft.Case(n=100)],
             bytes="8*n", flops="n")
"""
GOOD = """// rung: 00 naive
// idea: a thread for each element
// expect: load sectors per request <= 4
// launch: twice<<<cdiv(n, 64), 64>>>
__global__ void twice(const float* x, float* y, int n) {
    int i = blockIdx.x * 64 + threadIdx.x;
    if (i < n) y[i] = 2 * x[i];
}
"""


def run(*arguments: str) -> Result:
    return CliRunner().invoke(app, ["climb", *arguments])


def timed() -> Climb:
    """Two rungs and a peer, as on a GPU."""

    def at(seconds: float, peer: float = 2.0) -> tuple[Time, ...]:
        how = ("graph of 9 calls", 1.0 / seconds, peer / seconds)
        return (Time("n=9", seconds * 1e-3, seconds * 0.99e-3, seconds * 1.01e-3, *how),)

    said = ("an idea", "CUDA C++", "f32")
    reached = [
        RungResult(i, n, *said, times=at(s)) for i, n, s in ((0, "slow", 8.0), (1, "good", 1.25))
    ]
    peers = {"torch.add(a, b)": at(2.0)}
    limits = {"n=9": "copy: 4.00 TB/s"}
    machine = {"gpu": "NVIDIA H200", "torch": "2.11"}
    return Climb(
        "vecadd", "gpu", "NVIDIA H200", tuple(reached), peers, limits, machine, "2026-01-02"
    )
