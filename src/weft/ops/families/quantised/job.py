"""Describe a weight-only product for the kernels: a quantised weight, and rows of tokens."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import NamedTuple

import torch

from weft.ops.core.choose import Request
from weft.ops.core.layouts import merged
from weft.ops.core.plan import Argument, Buffer, Layout, Pointer, Step
from weft.ops.families.elementwise.copies import contiguous
from weft.ops.families.quantised.structs import QuantisedProblem

CONSTANT = "linear_quantised_constant"
"""The op whose weight no kernel shortly before writes."""
X, WEIGHT, SCALE, ZERO, BIAS, OUTPUT = range(6)
"""Numbers of the tensors of linear_quantised; scratch follows."""


class Format(NamedTuple):
    """A format of weights.

    name   in weft/dequantise.cuh
    bits   of a weight
    """

    name: str
    bits: int

    @property
    def eight(self) -> int:
        """Bytes of eight weights."""
        return self.bits


FORMATS = {
    torch.uint8: Format("INT4", 4),
    torch.int8: Format("INT8", 8),
    torch.float8_e4m3fn: Format("E4M3", 8),
    torch.float8_e5m2: Format("E5M2", 8),
}


MAGIC = {torch.float16: 0x64006400, torch.bfloat16: 0x43004300}
"""Numbers of weft/dequantise.cuh. Kernels are given them, because the compiler loads a literal anew
for each weight."""


@dataclass(frozen=True)
class QuantisedWeight:
    """A weight [N, K] in groups along K.

    pointers  of the weight, its scales and its zero points
    row       bytes from one row to the next
    aligned   bytes that every row begins at a multiple of, at most 16
    strides   of the scales and of the zero points: along N, along groups
    """

    format: Format
    n: int
    k: int
    groups: int
    pointers: tuple[Argument, Argument, Argument]
    row: int
    aligned: int
    scale: torch.dtype
    strides: tuple[int, int, int, int]

    @classmethod
    def of(cls, request: Request, first: int) -> QuantisedWeight:
        """The weight whose scales and zero points are the two inputs after it."""
        weight, scale, zero = request.inputs[first : first + 3]
        assert weight is not None and scale is not None
        form = FORMATS[weight.dtype]
        n, k = weight.shape[0], weight.shape[1] * 8 // form.bits
        row = weight.strides[0] if n > 1 else weight.shape[1]
        present = None if zero is None else Pointer(first + 2)
        return cls(
            form, n, k, scale.shape[1], (Pointer(first), Pointer(first + 1), present), row,
            math.gcd(row, weight.aligned) if row else weight.aligned, scale.dtype,
            (*_places(scale), *(_places(zero) if zero is not None else (0, 0))),
        )  # fmt: skip

    @property
    def group(self) -> int:
        """Weights that share a scale."""
        return self.k // self.groups

    @property
    def has_zero(self) -> bool:
        return self.pointers[2] is not None

    @property
    def size(self) -> int:
        """Bytes of the weight, its scales and its zero points."""
        scales = self.n * self.groups * int(self.scale.itemsize) * (2 if self.has_zero else 1)
        return self.n * self.k * self.format.bits // 8 + scales

    @property
    def each(self) -> int:
        """Weights that a thread reads at once by kernels for any alignment: eight, or one."""
        return 8 if self.k % 8 == 0 and self.aligned % self.format.eight == 0 else 1

    def problem(
        self,
        m: int = 0,
        x_row: int = 0,
        bias_n: int = 0,
        bits: int = 0,
        splits: int = 1,
        each: int = 0,
        constant: bool = False,
    ) -> bytes:
        """The struct that the kernels take."""
        magic, shift = _division(self.group) if self.groups > 1 else (0, 0)
        return QuantisedProblem(
            m, self.n, self.k, self.groups, self.group, magic, shift, bits, splits, each or self.k,
            x_row, self.row, *self.strides, bias_n, constant,
        ).pack()  # fmt: skip


def _places(scale: Layout) -> tuple[int, int]:
    """Strides along rows and groups; 0 where one scale serves all."""
    return (
        scale.strides[0] if scale.shape[0] > 1 else 0,
        scale.strides[1] if scale.shape[1] > 1 else 0,
    )


def _division(size: int) -> tuple[int, int]:
    """The factor, as a signed integer, and the shift of `quotient` in weft/problem.cuh."""
    log = (size - 1).bit_length()
    magic = -(-(1 << (31 + log)) // size)
    return (magic - 2**32 if magic >= 2**31 else magic), log - 1


@dataclass(frozen=True)
class QuantisedJob:
    """Tokens [M, K] times a quantised weight.

    x        the rows of the tokens, `pitch` elements apart
    aligned  the alignment of x, at most 16 bytes
    steps    launches before the product: a copy of x
    constant True if no kernel before writes the weight
    """

    weight: QuantisedWeight
    m: int
    dtype: torch.dtype
    x: Pointer
    pitch: int
    aligned: int
    bias: int | None
    out: Buffer
    steps: tuple[Step, ...] = ()
    scratch: tuple[Buffer, ...] = ()
    copy_time: float = 0.0
    constant: bool = False

    @property
    def arguments(self) -> tuple[Argument, ...]:
        """The tensors of a kernel up to the result."""
        bias = None if self.bias is None else Pointer(BIAS)
        return self.x, *self.weight.pointers, bias, Pointer(OUTPUT)

    @property
    def has_whole_rows(self) -> bool:
        """True if rows of x are whole vectors of 16 bytes."""
        size = self.dtype.itemsize
        apart = self.m > 1 and self.pitch * size % 16
        return self.weight.k * size % 16 == 0 and self.aligned == 16 and not apart

    def problem(self, splits: int = 1, each: int = 0) -> bytes:
        """The struct that the kernels take."""
        bits = MAGIC.get(self.dtype, 0)
        return self.weight.problem(
            self.m, self.pitch, self.bias or 0, bits, splits, each, self.constant
        )


def job_of(request: Request) -> QuantisedJob:
    """The product of a request; x is copied if its rows have no single pitch."""
    x, bias = request.first, request.inputs[BIAS]
    weight = QuantisedWeight.of(request, WEIGHT)
    out = Buffer((*x.shape[:-1], weight.n), x.dtype)
    stride = None if bias is None else bias.strides[0]
    walk = merged(x.shape[:-1], [x.strides[:-1]])
    pitch = walk.strides[0][0]
    made = QuantisedJob(
        weight, math.prod(x.shape[:-1]), x.dtype, Pointer(X), pitch, x.aligned, stride, out,
        constant=request.op == CONSTANT,
    )  # fmt: skip
    if len(walk.sizes) > 1 or (x.strides[-1] != 1 and weight.k > 1):
        return copied(made, request)
    return made


def copied(job: QuantisedJob, request: Request) -> QuantisedJob:
    """The same with a contiguous copy of x."""
    x, end = request.first, Pointer(OUTPUT + 1)
    copy = contiguous(x, Pointer(X), end, request.target)
    return replace(
        job, x=end, pitch=job.weight.k, aligned=16, steps=copy.steps,
        scratch=(Buffer(x.shape, x.dtype),), copy_time=copy.cost,
    )  # fmt: skip
