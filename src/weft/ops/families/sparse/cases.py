"""Linear layers with 2:4 sparse weights, and products with block-sparse and CSR matrices."""

from __future__ import annotations

import functools
import random
from typing import Any

import torch
from torch.nn import functional as F

from weft.kernels import cdiv
from weft.ops.core import library
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


def _rows(rng: random.Random, most: int) -> Call:
    """Rows of equal lengths: column indices [rows, each], values of that shape, a dense matrix."""
    rows, inner = (max(1, min(rng.choice((16, 61, 1000, 4096)), most // 16)) for _ in range(2))
    each = rng.choice((1, 4, 31, 100))
    each = max(1, min(each, most // rows))
    dtype = rng.choice(FLOATS)
    places = draw.Between(0, inner)
    col = draw.Tensor((rows, each), "int64", (0, 1), contents=places, grad=False)
    values = draw.Tensor((rows, each), dtype, (0, 1), grad=False)
    dense = draw.tensor(rng, (inner, _columns(rng, inner, most)), dtype, plain=0.8)
    return Call("csr_mm", (col, values, dense), {})


def _row_blocks(rng: random.Random, most: int) -> Call:
    """The same for blocks: values [rows, each, size, size]."""
    size = rng.choice((16, 32, 64, 128))
    rows, inner = (max(1, min(rng.choice((1, 8, 61)), most // size**2)) for _ in range(2))
    each = max(1, min(rng.choice((1, 2, 8)), most // (rows * size**2)))
    dtype = rng.choice(FLOATS)
    places = draw.Between(0, inner)
    col = draw.Tensor((rows, each), "int64", (0, 1), contents=places, grad=False)
    values = draw.Tensor((rows, each, size, size), dtype, (0, 1, 2, 3), grad=False)
    columns = _columns(rng, inner * size, most)
    dense = draw.tensor(rng, (inner * size, columns), dtype, plain=0.8)
    return Call("block_sparse_mm", (col, values, dense), {})


def _parts(col: Any, values: Any) -> tuple[Any, Any, Any]:
    """(crow_indices, col_indices, values) of rows of equal lengths."""
    rows, each = col.shape
    crow = torch.arange(0, rows * each + 1, each, device=col.device)
    return crow, col.reshape(-1), values.flatten(0, 1)


def _csr_by_torch(col: Any, values: Any, dense: Any) -> Any:
    crow, flat, elements = _parts(col, values)
    return torch.sparse_csr_tensor(crow, flat, elements, (col.shape[0], dense.shape[0])) @ dense


def _blocks_by_torch(col: Any, values: Any, dense: Any) -> Any:
    crow, flat, elements = _parts(col, values)
    size = (col.shape[0] * values.shape[-1], dense.shape[0])
    return torch.sparse_bsr_tensor(crow, flat, elements, size) @ dense


def _csr_exactly(col: Any, values: Any, dense: Any) -> Any:
    return torch.einsum("re,ren->rn", values, dense[col])


def _blocks_exactly(col: Any, values: Any, dense: Any) -> Any:
    size = values.shape[-1]
    chosen = dense.reshape(-1, size, dense.shape[1])[col]
    return torch.einsum("reij,rejn->rin", values, chosen).flatten(0, 1)


def _weft(op: str, col: Any, values: Any, dense: Any) -> Any:
    return library.call(op)(*_parts(col, values), dense)


_LINEAR = Case("sparse_linear", _drawn, _by_torch, depth=lambda call: call.shape()[-1])
_CSR = Case(
    "csr_mm", _rows, _csr_by_torch, depth=lambda call: call.shape()[-1],
    weft=functools.partial(_weft, "csr_mm"), reference=_csr_exactly,
)  # fmt: skip
_BLOCKS = Case(
    "block_sparse_mm", _row_blocks, _blocks_by_torch,
    depth=lambda call: call.shape()[-1] * call.shape(1)[-1],
    weft=functools.partial(_weft, "block_sparse_mm"), reference=_blocks_exactly,
)  # fmt: skip
CASES = (
    _LINEAR,
    _LINEAR.with_backward(depth=lambda call: max(call.shape()), roundings=8),
    _CSR,
    _BLOCKS,
)
