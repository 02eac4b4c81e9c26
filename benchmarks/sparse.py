"""Time products with sparse matrices beside dense ones and PyTorch's, on a GPU.

    PYTHONPATH=src python benchmarks/sparse.py [seconds] [--once] [words of calls ...]

2:4: the tiles of sparse_linear that the cost model ranks first, weft.ops.linear, F.linear and
torch.sparse.to_sparse_semi_structured (cuSPARSELt). Blocks, with all tiles, and CSR: by densities,
beside PyTorch's sparse products (cuSPARSE) and its dense one. Contenders are captured in CUDA
graphs that take turns. Errors are against float64, on some of the rows. A JSON line for each call
goes to $OUT/sparse.jsonl. Words select calls by their names, e.g. "2:4 8192".
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import torch
import torch.nn.functional as F
from graph_times import Session, race

import weft
from weft.ops.core import library
from weft.ops.core.runner import runner

LINEAR = (
    (4096, 4096, 4096), (8192, 8192, 8192), (4096, 14336, 4096), (4096, 4096, 14336),
    (4096, 6144, 4096), (2048, 28672, 8192), (16, 14336, 4096), (128, 4096, 14336),
)  # fmt: skip
"""Rows of x, features, K: cubes, and layers of Llama 3 8B and 70B for many and few tokens."""
DENSITIES = (0.5, 0.25, 0.1, 0.05, 0.01)
SIZE = 4096
"""Rows and columns of block-sparse and CSR matrices."""
COLUMNS = (4096, 256)
"""Columns of the dense operand."""
MOST = 8
"""Tiles of a call that are timed."""
PART = 128
"""Rows of a result that are compared with float64."""
Calls = dict[str, Callable[[], Any]]


def normal(*shape: int, dtype: Any = torch.bfloat16) -> Any:
    return torch.randn(shape, device="cuda").to(dtype)


def judge(want: Any, call: Callable[[], Any]) -> float:
    """The relative error of the first rows."""
    got = call()[:PART].double()
    return float((got - want).norm() / want.norm())


def candidates(op: str, *tensors: Any) -> Calls:
    """The tiles with the least modelled time; they are compiled at the same time."""
    function = library.function(op)
    values = function.bound(tensors, {})
    choice = function.choice(function.request(*values))
    ranked = sorted((choice.used, *choice.others), key=lambda c: c.cost)[:MOST]
    inputs = [*tensors, *[None] * (len(function.tensors) - len(tensors))]
    with ThreadPoolExecutor(8) as pool:
        plans = list(pool.map(lambda c: c.build(), ranked))
    runs = [runner(plan, len(inputs), inputs[0].device) for plan in plans]
    pairs = zip(ranked, runs, strict=True)
    return {f"tile {c.name}": functools.partial(run, *inputs) for c, run in pairs}


def note(session: Session, name: str, calls: Calls, want: Any, work: float) -> None:
    """Race contenders and append their times; `work` is the operations of the dense product."""
    row: dict[str, Any] = {"call": name}
    row |= race(calls, 4, functools.partial(judge, want), once=session.once)
    row["dense_tflops"] = {who: work / us * 1e-6 for who, us in row["us"].items()}
    session.note(row)
    print(name, {who: round(us, 1) for who, us in row["us"].items()}, row["failed"], flush=True)


# ---- 2:4 -----------------------------------------------------------------------------------------
def semi_structured(session: Session, rows: int, features: int, k: int) -> None:
    weight = weft.sparse.prune(normal(features, k) / k**0.5)
    x, compressed = normal(rows, k), weft.sparse.compress(weight)
    operands = x, compressed.values, compressed.metadata
    calls: Calls = {
        "weft": lambda: weft.ops.sparse_linear(*operands),
        "weft dense": lambda: weft.ops.linear(x, weight),
        "torch dense": lambda: F.linear(x, weight),
        **candidates("sparse_linear", *operands),
    }
    try:
        theirs = torch.sparse.to_sparse_semi_structured(weight)
        calls["torch sparse"] = lambda: F.linear(x, theirs)
    except RuntimeError as error:
        print("no cuSPARSELt:", error, flush=True)
    want = x[:PART].double() @ weight.double().T
    work = 2.0 * rows * features * k
    note(session, f"2:4 {rows}x{features}x{k} bfloat16", calls, want, work)


# ---- blocks and CSR ------------------------------------------------------------------------------
def blocks(session: Session, size: int, density: float, columns: int, dtype: Any) -> None:
    across = SIZE // size
    places = torch.rand(across, across, device="cuda") < density
    mask = places.repeat_interleave(size, 0).repeat_interleave(size, 1)
    whole, dense = normal(SIZE, SIZE, dtype=dtype) * mask, normal(SIZE, columns, dtype=dtype)
    theirs = whole.to_sparse_bsr((size, size))
    parts = theirs.crow_indices(), theirs.col_indices(), theirs.values()
    calls: Calls = {
        "weft": lambda: weft.ops.block_sparse_mm(*parts, dense),
        "weft dense": lambda: weft.ops.matmul(whole, dense),
        "torch dense": lambda: whole @ dense,
        "torch sparse": lambda: theirs @ dense,
        **candidates("block_sparse_mm", *parts, dense),
    }
    name = f"blocks {size} {density} {SIZE}x{SIZE}x{columns} {str(dtype).removeprefix('torch.')}"
    want = whole[:PART].double() @ dense.double()
    note(session, name, calls, want, 2.0 * SIZE * SIZE * columns)


def rows(session: Session, density: float, columns: int, dtype: Any) -> None:
    whole = normal(SIZE, SIZE, dtype=dtype) * (torch.rand(SIZE, SIZE, device="cuda") < density)
    dense, theirs = normal(SIZE, columns, dtype=dtype), whole.to_sparse_csr()
    parts = theirs.crow_indices().int(), theirs.col_indices().int(), theirs.values()
    calls: Calls = {
        "weft": lambda: weft.ops.csr_mm(*parts, dense),
        "weft dense": lambda: weft.ops.matmul(whole, dense),
        "torch dense": lambda: whole @ dense,
        "torch sparse": lambda: theirs @ dense,
    }
    name = f"csr {density} {SIZE}x{SIZE}x{columns} {str(dtype).removeprefix('torch.')}"
    want = whole[:PART].double() @ dense.double()
    note(session, name, calls, want, 2.0 * SIZE * SIZE * columns)


def jobs() -> dict[str, Callable[[Session], None]]:
    """All calls by name, the most important first."""
    bf16, fp32 = torch.bfloat16, torch.float32
    made: dict[str, Callable[[Session], None]] = {}
    for m, n, k in LINEAR:
        made[f"2:4 {m}x{n}x{k}"] = functools.partial(semi_structured, rows=m, features=n, k=k)
    for columns in COLUMNS:
        for density in DENSITIES:
            for size, dtype in ((64, bf16), (128, bf16), (64, fp32)):
                made[f"blocks {size} {density} {columns} {dtype}"] = functools.partial(
                    blocks, size=size, density=density, columns=columns, dtype=dtype
                )
            for dtype in (fp32, bf16):
                made[f"csr {density} {columns} {dtype}"] = functools.partial(
                    rows, density=density, columns=columns, dtype=dtype
                )
    return made


def main() -> None:
    session = Session("sparse", 240.0)
    torch.manual_seed(0)
    for name, job in jobs().items():
        if session.wants(name) and session.has_time(name):
            job(session)


if __name__ == "__main__":
    main()
