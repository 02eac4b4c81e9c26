"""2:4 sparsity for PyTorch: prune, compress and train weights that keep two of four elements.

`compress` makes the operands of `weft.ops.sparse_linear`; `convert` makes the linear layers of a
model sparse.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, overload

from weft.ops.core import bind
from weft.ops.core.bind import deferred

if TYPE_CHECKING:
    import torch

    from weft.sparse.layers import Linear
    from weft.sparse.pruning import SparsityReport
    from weft.sparse.semi_structured import SemiStructured

__all__ = ["Linear", "SemiStructured", "SparsityReport", "compress", "convert", "prune", "report"]
_CLASSES = {"Linear": "layers", "SemiStructured": "semi_structured", "SparsityReport": "pruning"}
"""Classes, and the modules that have them; these import torch."""


@overload
def prune(weight: torch.Tensor, permute: Literal[False] = False) -> torch.Tensor: ...


@overload
def prune(weight: torch.Tensor, permute: Literal[True]) -> tuple[torch.Tensor, torch.Tensor]: ...


def prune(weight: Any, permute: bool = False) -> Any:
    """Keep the two largest magnitudes of each four neighbours in a row; the others become 0.

    weight   [N, K], K a multiple of 4
    permute  exchange columns first, so that more magnitude is kept; returns (pruned weight,
             permutation): column i of the pruned weight was column permutation[i], and a layer
             gets x[..., permutation]

    >>> print(weft.sparse.prune(torch.tensor([[1.0, -4.0, 3.0, 2.0]])))
    tensor([[ 0., -4.,  3.,  0.]])
    """
    return bind.with_torch("weft.sparse.pruning").prune(weight, permute)


def report(weight: torch.Tensor) -> SparsityReport:
    """Measure what `prune` would keep of a weight.

    weight  [N, K], K a multiple of 4

    >>> print(weft.sparse.report(torch.tensor([[1.0, -4.0, 3.0, 2.0]])))
    2:4 keeps 70.0 % of the magnitude; relative error 0.408; 0.0 % are zeros now
    """
    made: SparsityReport = bind.with_torch("weft.sparse.pruning").report(weight)
    return made


def compress(weight: torch.Tensor) -> SemiStructured:
    """Store a 2:4 sparse weight as its kept elements and metadata.

    weight  [N, K], K a multiple of 16; at most two of each four neighbours in a row are not 0

    >>> weight = weft.sparse.prune(torch.ones(8, 16, dtype=torch.float16))
    >>> print(list(weft.sparse.compress(weight).values.shape))
    [8, 8]
    """
    made: SemiStructured = bind.with_torch("weft.sparse.semi_structured").compress(weight)
    return made


def convert(model: torch.nn.Module) -> torch.nn.Module:
    """Make the linear layers of a model 2:4 sparse; return the model itself.

    model  a module of PyTorch

    Each `torch.nn.Linear` with a multiple of 16 inputs becomes a `weft.sparse.Linear`: its weight
    is pruned, unless it is 2:4 sparse already, and which elements are kept does not change any
    more. Parameters stay the same objects, and training goes on: the gradient of an element that
    is not kept is 0. Subclasses of layers stay as they are.

    >>> model = weft.sparse.convert(torch.nn.Sequential(torch.nn.Linear(16, 8).half()))
    >>> print(int((model[0].weight != 0).sum()))
    64
    """
    made: torch.nn.Module = bind.with_torch("weft.sparse.layers").convert(model)
    return made


__getattr__, __dir__ = deferred.attributes(__name__, _CLASSES, __all__)
