"""Fourier transforms as in torch.fft: complex and real, along one or several dimensions."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from weft.errors import ArgumentError
from weft.ops.core import library
from weft.ops.core.checks import check_dim, check_dtype
from weft.ops.core.choose import Candidate, Request
from weft.ops.core.function import Definition
from weft.ops.families.fft.composed import Transform, candidates

REAL = (torch.float32, torch.float16, torch.bfloat16)
NORMS = ("backward", "ortho", "forward")
LONGEST = 2**31 - 1
OPPOSITE = {"backward": "forward", "ortho": "ortho", "forward": "backward"}


@dataclass(frozen=True)
class TransformKind:
    """One transform and its adjoint, which is its backward pass.

    inverse  the sign of the exponent is positive, and "backward" scales by 1/n
    reads    "any", "real" or "complex": the dtypes that it takes
    writes   "all", "half" of the spectrum, or "real" numbers
    weight   of the elements of a half spectrum that stand for two
    """

    inverse: bool
    reads: str = "any"
    writes: str = "all"
    weight: float = 1.0

    @property
    def half(self) -> bool:
        return self.writes != "all"


@dataclass(frozen=True)
class Sizes:
    """The dimensions of a call, not negative, and the lengths of their transforms."""

    dims: tuple[int, ...]
    n: tuple[int, ...]


KINDS = {
    "fft": TransformKind(False),
    "ifft": TransformKind(True),
    "rfft": TransformKind(False, "real", "half"),
    "irfft": TransformKind(True, "complex", "real"),
    # A real tensor's spectrum has every element but the first and the middle one twice.
    "rfft_adjoint": TransformKind(True, "complex", "real", 0.5),
    "irfft_adjoint": TransformKind(False, "real", "half", 2.0),
}


Lengths = Sequence[int | None] | None
"""One for each dimension; None: as long as the tensor."""


def sizes(kind: TransformKind, x: Any, n: Lengths, dims: Sequence[int]) -> Sizes:
    """The lengths: those given, or the tensor's."""
    dims = tuple(d % x.dim() for d in dims)
    own = [x.shape[d] for d in dims]
    if kind.writes == "real":
        own[-1] = 2 * (own[-1] - 1)
    wanted = n or [None] * len(dims)
    pairs = zip(wanted, own, strict=True)
    return Sizes(dims, tuple(o if length is None else length for length, o in pairs))


def shape_of(kind: TransformKind, x: Any, s: Sizes) -> tuple[Any, ...]:
    """The shape of the result; the last of the dimensions has half of a spectrum."""
    shape = list(x.shape)
    for dim, n in zip(s.dims, s.n, strict=True):
        shape[dim] = n
    if kind.writes == "half":
        shape[s.dims[-1]] = s.n[-1] // 2 + 1
    return tuple(shape)


def dtype_of(kind: TransformKind) -> torch.dtype:
    return torch.float32 if kind.writes == "real" else torch.complex64


def _scale(norm: str | None, inverse: bool, elements: int) -> float:
    divided = {"backward": inverse, "forward": not inverse}.get(norm or "backward")
    return 1 / math.sqrt(elements) if divided is None else 1 / elements if divided else 1.0


# ---- checks ------------------------------------------------------------------------------------
def _check(
    name: str, kind: TransformKind, x: Any, n: Lengths, dims: Sequence[int], norm: str | None
) -> None:
    allowed = {"any": (torch.complex64, *REAL), "real": REAL, "complex": (torch.complex64,)}[
        kind.reads
    ]
    wanted = "to(torch.complex64)" if kind.reads == "complex" else "float()"
    check_dtype(name, "input", x, allowed, next=f"convert it: input.{wanted}")
    if norm is not None and norm not in NORMS:
        raise ArgumentError(
            f"weft.ops.{name}: norm is {norm!r}", allowed=", ".join(map(repr, NORMS))
        )
    rank = x.dim()
    for dim in dims:
        check_dim(name, rank, dim)
    if len({d % rank for d in dims}) < len(dims) or not dims:
        raise ArgumentError(
            f"weft.ops.{name}: 'dim' must name different dimensions",
            got=str(list(dims)),
            allowed="each dimension at most once, and at least one",
        )
    if n is not None and len(n) != len(dims):
        raise ArgumentError(
            f"weft.ops.{name}: each dimension needs a length",
            got=f"{list(n)} for {list(dims)}",
            allowed=f"{len(dims)} lengths",
        )
    made = sizes(kind, x, n, dims)
    wrong = [length for length in made.n if not 1 <= length <= LONGEST]
    if wrong:
        raise ArgumentError(
            f"weft.ops.{name}: there is no transform of this length",
            got=f"{wrong[0]} points",
            allowed=f"1 to {LONGEST}",
            next="give the length: n=…" if n is None else "",
        )


# ---- one dimension and several share everything but the form of their arguments ----------------
Arguments = tuple[Lengths, Sequence[int], str | None]
"""Lengths, dimensions, norm."""


def _line(n: int | None = None, dim: int = -1, norm: str | None = None) -> Arguments:
    return (None if n is None else (n,)), (dim,), norm


def _plane(
    s: Sequence[int] | None = None, dim: Sequence[int] = (-2, -1), norm: str | None = None
) -> Arguments:
    # As in torch: -1 stands for the length of the tensor.
    return (None if s is None else [None if n == -1 else n for n in s]), dim, norm


def _candidates(kind: TransformKind, read: Any, request: Request) -> Sequence[Candidate]:
    n, dims, norm = read(*request.options.values())
    x = torch.empty_strided(request.first.shape, request.first.strides, device="meta")
    s = sizes(kind, x, n, dims)
    pairs = list(zip(s.dims, s.n, strict=True))
    # The pass that reads or writes real numbers moves half the bytes: it is the outer one.
    ordered = pairs if kind.writes == "real" else pairs[::-1]
    transform = Transform(
        tuple(d for d, _ in ordered), tuple(n for _, n in ordered), shape_of(kind, x, s),
        dtype_of(kind), kind.inverse, kind.half,
        _scale(norm, kind.inverse, math.prod(s.n)), kind.weight,
    )  # fmt: skip
    return candidates(request, transform)


def _fake(name: str, kind: TransformKind, read: Any, x: Any, *options: Any) -> Any:
    n, dims, norm = read(*options)
    _check(name, kind, x, n, dims, norm)
    return x.new_empty(shape_of(kind, x, sizes(kind, x, n, dims)), dtype=dtype_of(kind))


def _setup(kind: TransformKind, read: Any, ctx: Any, inputs: Any, output: Any) -> None:
    x, *options = inputs
    n, dims, norm = read(*options)
    s = sizes(kind, x, n, dims)
    ctx.dims, ctx.n, ctx.norm = s.dims, s.n, norm or "backward"
    ctx.given = [x.shape[d] for d in s.dims]
    ctx.dtype, ctx.options = x.dtype, len(options)
    ctx.used = [
        n // 2 + 1 if kind.writes == "real" and d == s.dims[-1] else n
        for d, n in zip(s.dims, s.n, strict=True)
    ]


ADJOINTS = {
    "fft": "ifft", "ifft": "fft", "rfft": "rfft_adjoint", "irfft": "irfft_adjoint",
    "rfft_adjoint": "rfft", "irfft_adjoint": "irfft",
}  # fmt: skip


def _backward(adjoint: str, plane: bool, ctx: Any, grad: Any) -> Any:
    """The adjoint of a scaled transform is the opposite one with the same scale."""
    norm = OPPOSITE[ctx.norm]
    op = library.call(f"{adjoint}2" if plane else adjoint)
    made = (
        op(grad, list(ctx.n), list(ctx.dims), norm)
        if plane
        else op(grad, ctx.n[0], ctx.dims[0], norm)
    )
    # The call read so many elements of its input: the others have a gradient of 0.
    for dim, size, used in zip(ctx.dims, ctx.given, ctx.used, strict=True):
        if size < used:
            made = made.narrow(dim, 0, size)
        elif size > used:
            made = torch.nn.functional.pad(made, [0, 0] * (made.dim() - 1 - dim) + [0, size - used])
    if not ctx.dtype.is_complex:
        made = (made.real if made.is_complex() else made).to(ctx.dtype)
    return (made, *[None] * ctx.options)


def _batched(name: str, read: Any, info: Any, in_dims: Any, x: Any, *options: Any) -> Any:
    """A batch is one more dimension in front of the others."""
    _, dims, norm = read(*options)
    moved = [d % (x.dim() - 1) + 1 for d in dims]
    length = options[0] if options else None
    at = moved[0] if read is _line else moved
    return library.call(name)(x.movedim(in_dims[0], 0), length, at, norm), 0


DOCS = {
    "fft": "The Fourier transform of a tensor",
    "ifft": "The inverse Fourier transform of a tensor",
    "rfft": "The first half of the Fourier transform of a real tensor",
    "irfft": "The real inverse Fourier transform of the first half of a spectrum",
    "rfft_adjoint": "The backward pass of rfft",
    "irfft_adjoint": "The backward pass of irfft",
}


def _definition(name: str, plane: bool) -> Definition:
    kind, read = KINDS[name], _plane if plane else _line
    full = f"{name}2" if plane else name
    options = "int[]? s=None, int[] dim=[-2, -1]" if plane else "int? n=None, int dim=-1"
    along = "two dimensions" if plane else "a dimension"
    return Definition(
        name=full,
        schema=f"(Tensor input, {options}, str? norm=None) -> Tensor",
        doc=f"{DOCS[name]} along {along}, as torch.fft.{full}; float32 precision.",
        fake=functools.partial(_fake, full, kind, read),
        candidates=functools.partial(_candidates, kind, read),
        check=lambda x, *options: _check(full, kind, x, *read(*options)),
        setup=functools.partial(_setup, kind, read),
        backward=functools.partial(_backward, ADJOINTS[name], plane),
        vmap=functools.partial(_batched, full, read),
        autocast=None,
        public="adjoint" not in name,
    )


def _space(name: str) -> Callable[..., Any]:
    """The form for any number of dimensions: that for two takes as many as it is given."""
    plane = library.call(f"{name}2")

    def space(
        input: Any,
        s: Sequence[int] | None = None,
        dim: Sequence[int] | None = None,
        norm: str | None = None,
    ) -> Any:
        if dim is None:  # as in torch: the last ones, of which `s` has lengths, or all
            dim = range(-(input.dim() if s is None else len(s)), 0)
        return plane(input, None if s is None else list(s), list(dim), norm)

    space.__name__ = space.__qualname__ = f"{name}n"
    space.__doc__ = (
        f"{DOCS[name]} along several dimensions, by default all, as torch.fft.{name}n; float32"
        " precision."
    )
    return space


GROUP = "Fourier"
DEFINITIONS = tuple(_definition(name, plane) for plane in (False, True) for name in KINDS)
MAKERS = {f"{name}n": functools.partial(_space, name) for name in ("fft", "ifft", "rfft", "irfft")}
