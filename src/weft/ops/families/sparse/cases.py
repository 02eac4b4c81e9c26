"""Linear layers with 2:4 sparse weights, and products with block-sparse and CSR matrices."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Any

import torch
from torch.nn import functional as F

from weft.kernels import cdiv
from weft.ops.sweep import draw
from weft.ops.sweep.case import FLOATS, Case
from weft.ops.sweep.draw import Call

FIRST_TWO = 0x44444444
"""A word of metadata that keeps the first two of each four."""


def _drawn(rng: random.Random, most: int) -> Call:
    dtype = rng.choice(("float16", "bfloat16"))
    k = 16 * rng.choice((1, 2, 4, 5, 16, 37, 64, 256, 512))
    rows = max(1, min(rng.choice((1, 7, 32, 129, 1024, 4096)), most // k))
    features = max(1, min(rng.choice((8, 61, 256, 1000, 4096, 14336)), 2 * most // k))
    x = draw.tensor(rng, (rows, k), dtype, plain=0.8)
    values = draw.Tensor((features, k // 2), dtype, (0, 1))
    shape = (cdiv(features, 64), cdiv(k, 64), 128)
    words = draw.Between(FIRST_TWO, FIRST_TWO + 1)
    metadata = draw.Tensor(shape, "int32", (0, 1, 2), contents=words, grad=False)
    return Call("sparse_linear", (x, values, metadata), {})


def _by_torch(x: Any, values: Any, metadata: Any) -> Any:
    """The product with the whole weight."""
    fours = F.pad(values.reshape(values.shape[0], -1, 2), (0, 2))
    return F.linear(x, fours.reshape(values.shape[0], -1))


def _columns(rng: random.Random, rows: int, most: int) -> int:
    """Columns of a dense matrix of so many rows."""
    return max(1, min(rng.choice((1, 16, 61, 256, 1024)), most // rows))


@dataclass(frozen=True)
class Steps(draw.Between):
    """0, `high`, 2 `high` and so on: the first elements of rows of equal lengths."""

    def __call__(self, size: int, dtype: Any, device: str, generator: Any) -> torch.Tensor:
        return torch.arange(size, device=device).mul_(int(self.high)).to(dtype)


def _indices(rows: int, each: int, inner: int) -> tuple[draw.Tensor, draw.Tensor]:
    """crow_indices and col_indices of rows of equal lengths."""
    steps, places = Steps(0, each), draw.Between(0, inner)
    return (
        draw.Tensor((rows + 1,), "int64", (0,), contents=steps, grad=False),
        draw.Tensor((rows * each,), "int64", (0,), contents=places, grad=False),
    )


def _rows(rng: random.Random, most: int) -> Call:
    rows, inner = (max(1, min(rng.choice((16, 61, 1000, 4096)), most // 16)) for _ in range(2))
    each = max(1, min(rng.choice((1, 4, 31, 100)), most // rows))
    dtype = rng.choice(FLOATS)
    values = draw.Tensor((rows * each,), dtype, (0,), grad=False)
    dense = draw.tensor(rng, (inner, _columns(rng, inner, most)), dtype, plain=0.8)
    return Call("csr_mm", (*_indices(rows, each, inner), values, dense), {})


def _row_blocks(rng: random.Random, most: int) -> Call:
    size = rng.choice([size for size in (16, 32, 64, 128) if size == 16 or size**2 <= most])
    rows, inner = (max(1, min(rng.choice((1, 8, 61)), most // size**2)) for _ in range(2))
    each = max(1, min(rng.choice((1, 2, 8)), most // (rows * size**2)))
    dtype = rng.choice(FLOATS)
    values = draw.Tensor((rows * each, size, size), dtype, (0, 1, 2), grad=False)
    columns = _columns(rng, inner * size, most)
    dense = draw.tensor(rng, (inner * size, columns), dtype, plain=0.8)
    return Call("block_sparse_mm", (*_indices(rows, each, inner), values, dense), {})


def _csr_by_torch(crow: Any, col: Any, values: Any, dense: Any) -> Any:
    size = (crow.shape[0] - 1, dense.shape[0])
    return torch.sparse_csr_tensor(crow, col, values, size) @ dense


def _blocks_by_torch(crow: Any, col: Any, values: Any, dense: Any) -> Any:
    size = ((crow.shape[0] - 1) * values.shape[-1], dense.shape[0])
    return torch.sparse_bsr_tensor(crow, col, values, size) @ dense


def _csr_exactly(crow: Any, col: Any, values: Any, dense: Any) -> Any:
    shape = (crow.shape[0] - 1, -1)
    return torch.einsum("re,ren->rn", values.reshape(shape), dense[col.reshape(shape)])


def _blocks_exactly(crow: Any, col: Any, values: Any, dense: Any) -> Any:
    rows, size = crow.shape[0] - 1, values.shape[-1]
    chosen = dense.reshape(-1, size, dense.shape[1])[col.reshape(rows, -1)]
    made = torch.einsum("reij,rejn->rin", values.reshape(rows, -1, size, size), chosen)
    return made.flatten(0, 1)


def _row_length(call: Call) -> int:
    """Nonzeros, or blocks, of a row."""
    return call.shape(1)[0] // (call.shape()[0] - 1)


_LINEAR = Case("sparse_linear", _drawn, _by_torch, depth=lambda call: call.shape()[-1])
CASES = (
    _LINEAR,
    _LINEAR.with_backward(depth=lambda call: max(call.shape()), roundings=8),
    Case("csr_mm", _rows, _csr_by_torch, depth=_row_length, reference=_csr_exactly),
    Case(
        "block_sparse_mm",
        _row_blocks,
        _blocks_by_torch,
        depth=lambda call: _row_length(call) * call.shape(2)[-1],
        reference=_blocks_exactly,
    ),
)
