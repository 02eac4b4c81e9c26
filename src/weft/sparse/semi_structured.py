"""2:4 sparse matrices: kept elements, and metadata in the order in which tensor cores read it."""

from __future__ import annotations

from typing import Any

import torch

from weft.errors import ArgumentError
from weft.kernels import cdiv
from weft.ops.core import library
from weft.records import dataclass
from weft.sparse.pruning import FOUR, check_weight

SIXTEEN, BLOCK = 16, 64
"""K of a half word of metadata; rows, and K, that share 128 words."""
FIRST_TWO = 0b0100
"""Metadata of four neighbours of which the first two are kept."""


@dataclass(frozen=True)
class SemiStructured:
    """A matrix of which two of each four neighbours in a row are kept.

    values    [N, K / 2], the kept elements in their order
    metadata  int32 [N / 64, K / 64, 128], sizes rounded up: their places
    shape     (N, K)

    Of each 64 rows and 64 of K, thread t of a warpgroup has word t: rows 16 (t / 32) + t % 32 / 4,
    in the lower half, and 8 more; and 16 of K from 16 (t % 4) on. Four bits have the places of the
    two kept ones of four.

    >>> matrix = weft.sparse.compress(weft.sparse.prune(torch.ones(8, 16)))
    >>> print(matrix.shape, list(matrix.values.shape), list(matrix.metadata.shape))
    (8, 16) [8, 8] [1, 1, 128]
    """

    values: torch.Tensor
    metadata: torch.Tensor
    shape: tuple[int, int]

    def dense(self) -> torch.Tensor:
        """Return the whole matrix [N, K], zeros included."""
        made: torch.Tensor = library.call("sparse_expand")(self.values, self.metadata)
        return made


def compress(weight: Any) -> SemiStructured:
    """Store a 2:4 sparse matrix; see `weft.sparse.compress`."""
    check_weight("compress", weight, SIXTEEN)
    weight = weight.detach()
    rows, k = weight.shape
    fours = weight.reshape(rows, -1, FOUR)
    zero = fours == 0
    _refuse_dense(zero)
    # The places of what is not 0 come first, then those of zeros; of these two, in their order.
    places = zero.to(torch.int8).sort(dim=2, stable=True).indices[..., :2].sort(dim=2).values
    values = fours.gather(2, places).reshape(rows, k // 2)
    metadata = encoded(places[..., 0] | places[..., 1] << 2)
    return SemiStructured(values, metadata, (rows, k))


def _refuse_dense(zero: Any) -> None:
    """Raise if more than two of four neighbours are not 0."""
    dense = (~zero).sum(2) > 2
    if not bool(dense.any()):
        return
    row, four = (int(i) for i in dense.nonzero()[0])
    column = FOUR * four + int((~zero[row, four]).nonzero()[2])
    raise ArgumentError(
        "weft.sparse.compress: the weight is not 2:4 sparse",
        got=f"row {row}, column {column}: the third element that is not 0 of columns"
        f" {FOUR * four} to {FOUR * four + FOUR - 1}",
        allowed="at most two of each four neighbours in a row",
        next="prune it: weft.sparse.prune(weight)",
    )


def encoded(codes: Any) -> Any:
    """Metadata of codes [N, K / 4], four bits each, as `SemiStructured` describes them."""
    rows, fours = codes.shape
    down, across = cdiv(rows, BLOCK), cdiv(fours * FOUR, BLOCK)
    padded = codes.new_full((down * BLOCK, across * BLOCK // FOUR), FIRST_TWO)
    padded[:rows, :fours] = codes
    shifts = torch.arange(0, SIXTEEN, FOUR, device=codes.device)
    halves = (padded.reshape(down * BLOCK, -1, FOUR) << shifts).sum(2)
    # Rows are (block, warp, half, quad of lanes), sixteens are (block, lane of the quad).
    halves = halves.reshape(down, 4, 2, 8, across, 4).permute(0, 4, 1, 3, 5, 2)
    low, high = halves[..., 0], halves[..., 1]
    words = low | high << SIXTEEN
    signed = torch.where(words >= 2**31, words - 2**32, words)
    return signed.to(torch.int32).reshape(down, across, 128).contiguous()
