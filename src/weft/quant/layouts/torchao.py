"""The weights of torchao's tensors, by the names of their classes.

    Int8Tensor                qdata int8 [N, K], scale and zero_point of blocks
    IntxUnpackedToInt8Tensor  the same with numbers in the range of `target_dtype`
    Float8Tensor              qdata float8 [N, K], scale of blocks
    Int4Tensor                qdata int8 [N, K / 2]: two's complement, the low four bits are even
                              columns; scale and zero_point [G, N]
    Int4TilePackedTo4dTensor  qdata as `tinygemm`, scale_and_zero [G, N, 2]

The first three are (q - zero) * scale. In the last two a zero is a value: q * scale + zero.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch

from weft.errors import ArgumentError
from weft.quant.formats import FORMATS
from weft.quant.layouts import tinygemm
from weft.quant.layouts.assembling import assemble
from weft.quant.layouts.imported import Imported
from weft.quant.quantised import Quantised

NARROW = ("int1", "int2", "int3", "int4")
"""Integers that int4 holds."""
FLOATS = {form.dtype: name for name, form in FORMATS.items() if not form.integer}


@dataclass(frozen=True)
class Packed:
    """A tensor of torchao without its class.

    kind     the name of the class
    tensors  its tensors by name
    facts    its other attributes: block_size, dtype, …
    dtype    that the weight is dequantised to
    where    the parameter, for errors
    """

    kind: str
    tensors: Mapping[str, torch.Tensor]
    facts: Mapping[str, Any]
    dtype: torch.dtype
    where: str

    def tensor(self, name: str, *dtypes: torch.dtype) -> torch.Tensor:
        """Look up a tensor; raise if it is missing or has another dtype."""
        found = self.tensors.get(name)
        if found is None:
            raise ArgumentError(
                f"a tensor of torchao lacks '{name}'",
                where=self.where, got=f"{self.kind} with {', '.join(self.tensors) or 'nothing'}",
            )  # fmt: skip
        if dtypes and found.dtype not in dtypes:
            raise ArgumentError(
                f"'{name}' of a tensor of torchao has another dtype than its layout",
                where=self.where, got=f"{self.kind}, {found.dtype}",
                allowed=", ".join(map(str, dtypes)),
            )  # fmt: skip
        return found.detach()

    def matrix(self, name: str, *dtypes: torch.dtype, dims: int = 2) -> torch.Tensor:
        """Look up a tensor; raise for another number of dimensions, too."""
        found = self.tensor(name, *dtypes)
        if found.dim() != dims:
            raise ArgumentError(
                f"'{name}' of a tensor of torchao has another shape than a linear layer's",
                where=self.where, got=f"{self.kind}, {list(found.shape)}",
                allowed=f"{dims} dimensions",
            )  # fmt: skip
        return found

    def pair(self, fact: str, default: tuple[int, int]) -> tuple[int, int]:
        """Look up two numbers of rows and columns; raise for anything else."""
        found = self.facts.get(fact) or default
        pair = tuple(found) if isinstance(found, list | tuple) else ()
        if len(pair) != 2 or not all(type(size) is int and size > 0 for size in pair):
            raise ArgumentError(
                f"a tensor of torchao has another {fact} than a linear layer's",
                where=self.where, got=f"{self.kind}, {found!r}", allowed="[rows, columns]",
            )  # fmt: skip
        return pair[0], pair[1]

    def block(self, shape: tuple[int, int]) -> tuple[int, int]:
        """The rows and columns that share a scale; without a size, all do."""
        rows, columns = self.pair("block_size", shape)
        return min(rows, shape[0]), min(columns, shape[1])


def imported(packed: Packed) -> Imported:
    """Take over the weight; raise for a layout that is not public."""
    if packed.kind not in KINDS:
        raise ArgumentError(
            "torchao's tensors of this class have no public layout that weft reads",
            where=packed.where,
            got=packed.kind,
            allowed=", ".join(KINDS),
            next=NEXT.get(packed.kind, "quantise the original model with weft.quant.convert"),
        )
    multiplier = packed.tensors.get("act_pre_scale")
    is_static = packed.tensors.get("act_quant_scale") is not None
    rows = not is_static and _has_rows(packed.facts.get("act_quant_kwargs"))
    weight = KINDS[packed.kind](packed)
    if multiplier is not None:
        multiplier = multiplier.detach().reshape(-1).float().expand(weight.shape[1]).contiguous()
    return Imported(weight, multiplier=multiplier, is_dynamic=rows)


NEXT = {
    "Int4PreshuffledTensor": "quantise with int4_packing_format='plain'",
    "AffineQuantizedTensor": "quantise with torchao 0.16 or later, whose tensors are plain",
    "LinearActivationQuantizedTensor": "quantise with torchao 0.16 or later, whose tensors are"
    " plain",
}


# ---- one layout each ---------------------------------------------------------------------------
def _int8(p: Packed) -> Quantised:
    return _integers(p, "int8")


def _intx(p: Packed) -> Quantised:
    target = str(p.facts.get("target_dtype", "int8")).removeprefix("torch.")
    return _integers(p, "int4" if target in NARROW else "int8")


def _integers(p: Packed, form: str) -> Quantised:
    q = p.matrix("qdata", torch.int8)
    low, high = FORMATS[form].low, FORMATS[form].high
    if q.numel() and not low <= int(q.min()) <= int(q.max()) <= high:
        raise ArgumentError(
            "a tensor of torchao has numbers that its dtype lacks",
            where=p.where, got=f"{int(q.min())} to {int(q.max())}", allowed=f"{low:g} to {high:g}",
        )  # fmt: skip
    block = p.block((q.shape[0], q.shape[1]))
    zero = p.tensors.get("zero_point")
    scale = _matrix(p.tensor("scale"), q, block)
    zeros = None if zero is None else _matrix(zero.detach(), q, block).float()
    return assemble(q, scale, zeros, form, block, p.dtype, p.where)


def _float8(p: Packed) -> Quantised:
    q = p.matrix("qdata", *FLOATS)
    block = p.block((q.shape[0], q.shape[1]))
    scale = _matrix(p.tensor("scale"), q, block)
    return assemble(q, scale, None, FLOATS[q.dtype], block, p.dtype, p.where)


def _matrix(scale: torch.Tensor, q: torch.Tensor, block: tuple[int, int]) -> torch.Tensor:
    """Scales of rows or of a tensor may have one dimension or none."""
    if scale.dim() == 2:
        return scale
    whole = block[0] == q.shape[0] and scale.numel() == 1
    return scale.reshape(1, 1) if whole else scale.reshape(-1, 1)


def _int4(p: Packed) -> Quantised:
    stored = p.matrix("qdata", torch.int8, torch.uint8).view(torch.uint8)
    pairs = torch.stack((stored & 15, stored >> 4), -1).flatten(-2).to(torch.int8)
    q = torch.where(pairs > 7, pairs - 16, pairs)
    return _shifted(p, q, p.matrix("scale").T, p.matrix("zero_point").T)


def _tile_packed(p: Packed) -> Quantised:
    words = p.matrix("qdata", torch.int32, dims=4)
    if words.shape[2:] != (tinygemm.LANES, tinygemm.TILES):
        raise ArgumentError(
            "'qdata' of a tensor of torchao has another shape than its layout",
            where=p.where, got=str(list(words.shape)),
            allowed=f"[N / 8, K / 128, {tinygemm.LANES}, {tinygemm.TILES}]",
        )  # fmt: skip
    q = tinygemm.unpacked(words).to(torch.int8) - 8
    both = p.matrix("scale_and_zero", dims=3)
    n, k = p.pair("shape", (q.shape[0], q.shape[1]))
    columns = p.block((n, k))[1]
    groups = both[: -(-k // columns), :n]
    return _shifted(p, q[:n, :k].contiguous(), groups[..., 0].T, groups[..., 1].T)


def _shifted(p: Packed, q: torch.Tensor, scale: torch.Tensor, value: torch.Tensor) -> Quantised:
    """Make a weight q * scale + value: its zero is -value / scale, rounded to float32."""
    if not bool((scale != 0).all()):
        raise ArgumentError("a scale of a weight is 0", where=p.where, allowed="other numbers")
    zero = -value.float() / scale.float()
    block = p.block((q.shape[0], q.shape[1]))
    return assemble(q, scale, zero, "int4", block, p.dtype, p.where)


KINDS: dict[str, Callable[[Packed], Quantised]] = {
    "Int8Tensor": _int8,
    "IntxUnpackedToInt8Tensor": _intx,
    "Float8Tensor": _float8,
    "Int4Tensor": _int4,
    "Int4TilePackedTo4dTensor": _tile_packed,
}


# ---- the treatment of inputs ---------------------------------------------------------------------
def _has_rows(kwargs: Any) -> bool:
    """True if each row of the inputs is quantised by a scale of its own, without zeros.

    kwargs  an object of torchao, its JSON, or None
    """
    if kwargs is None or _kind(_field(kwargs, "granularity")) != "PerRow":
        return False
    mapping = _field(kwargs, "mapping_type")
    name = mapping.get("_data") if isinstance(mapping, Mapping) else getattr(mapping, "name", None)
    return name in (None, "SYMMETRIC")  # float8 has none


def _field(value: Any, name: str) -> Any:
    if isinstance(value, Mapping):
        inside = value.get("_data")
        return inside.get(name) if isinstance(inside, Mapping) else None
    return getattr(value, name, None)


def _kind(value: Any) -> str:
    return str(value.get("_type")) if isinstance(value, Mapping) else type(value).__name__
