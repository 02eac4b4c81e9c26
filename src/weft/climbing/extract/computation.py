"""One computation of a layer as the parts of a ladder, and the facts that its kinds share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from weft.errors import ArgumentError
from weft.values.model import TensorType


class ElementType(NamedTuple):
    """A type of elements: its name in signatures, in CUDA C++, its header and its size."""

    name: str
    cuda: str
    header: str
    size: int


TYPES = {
    "float32": ElementType("f32", "float", "", 4),
    "bfloat16": ElementType("bf16", "__nv_bfloat16", "#include <cuda_bf16.h>\n\n", 2),
    "float16": ElementType("f16", "__half", "#include <cuda_fp16.h>\n\n", 2),
}


@dataclass(frozen=True)
class Computation:
    """The parts of a ladder.

    kind        the name of the computation, which its kernel has
    about       one line on what it computes
    signature   inputs -> outputs, as in `weft.Op`
    call        the computation as an expression of PyTorch
    sizes       as in the model
    small       sizes to count on the simulator, and to check: (sizes, why)
    flops bytes expressions of the sizes
    ceiling     what bounds it on a GPU: copy or compute
    rung        the header of the naive rung from `idea` on, and its code
    like        weft's ladder that shows what to do next
    more        further arguments of `weft.Op`
    """

    kind: str
    about: str
    signature: str
    call: str
    sizes: Mapping[str, int]
    small: Sequence[tuple[Mapping[str, int], str]]
    flops: str
    bytes: str
    ceiling: str
    rung: str
    like: str
    more: str = ""


def tensor(operands: Mapping[str, Any], *names: str) -> TensorType | None:
    """The first operand of these names that is a tensor; None if there is none."""
    found = (operands.get(name) for name in names)
    return next((value for value in found if isinstance(value, TensorType)), None)


def needed(operands: Mapping[str, Any], *names: str) -> TensorType:
    """The same; raise if there is none."""
    found = tensor(operands, *names)
    if found is None:
        raise refused("an operand is missing", ", ".join(operands), f"one named {names[0]}")
    return found


def element(of: TensorType) -> ElementType:
    """The type of a tensor's elements; raise for types that ladders do not have."""
    if of.dtype not in TYPES:
        raise refused("the type of its tensors has no ladder", of.dtype, ", ".join(TYPES))
    return TYPES[of.dtype]


def refused(what: str, got: str, allowed: str) -> ArgumentError:
    """The error for a computation that cannot be a ladder."""
    return ArgumentError(f"this layer cannot be extracted: {what}", got=got, allowed=allowed)


def smaller(sizes: Mapping[str, int], most: Mapping[str, int]) -> dict[str, int]:
    """The sizes of a model, with limits for the simulator."""
    return {name: min(n, most.get(name, n)) for name, n in sizes.items()}


def rows_of(of: TensorType) -> tuple[int, int]:
    """(rows, n) of a tensor whose last dimension is a row."""
    rows = 1
    for extent in of.shape[:-1]:
        rows *= extent
    return rows, of.shape[-1] if of.shape else 1


def precision(kind: ElementType) -> str:
    """The line of a rung's header for 16-bit types."""
    return "" if kind.name == "f32" else f"// precision: {kind.name}\n"
