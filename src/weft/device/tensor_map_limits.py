"""The limits of tensor maps: what the driver refuses, with a reason."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from weft.device.tensor_map_encoding import MapRequest
from weft.device.tensor_map_layout import LEAST_SLICED, MAX_RANK, SWIZZLE_SPANS
from weft.errors import ArgumentError

MAX_BOX, MAX_STEP, MAX_PIXELS = 256, 8, 1024
MAX_BYTES = 227 << 10
_CORNERS = {3: 1 << 15, 4: 1 << 7, 5: 1 << 4}
"""The corners of an im2col map are below this, by its rank."""


class Problem(NamedTuple):
    """One argument that is not allowed."""

    what: str
    got: str
    allowed: str
    next: str = ""


def check(r: MapRequest) -> None:
    """Raise ArgumentError for the first argument of a map that is not allowed."""
    for problem in problems(r):
        raise ArgumentError(
            f"a tensor map: {problem.what}",
            got=problem.got,
            allowed=problem.allowed,
            next=problem.next,
        )


def problems(r: MapRequest) -> Iterator[Problem]:
    """All that the driver would refuse; sizes in its order, the innermost dimension first."""
    yield from _tensor(r)
    yield from _box(r) if r.lower is None else _columns(r)
    for i, step in enumerate(r.steps):
        if not 1 <= step <= MAX_STEP:
            yield Problem("a step from element to element", f"{step} in dimension {i}", "1 to 8")
    if len(r.box) in (0, r.rank) and 0 not in r.steps and r.noted_bytes > MAX_BYTES:
        yield Problem(
            "the box is larger than the shared memory of a block",
            f"{r.noted_bytes} bytes",
            f"at most {MAX_BYTES}",
        )
    yield from _layout(r)


def _tensor(r: MapRequest) -> Iterator[Problem]:
    least = LEAST_SLICED if r.interleave or r.lower is not None else 1
    if not least <= r.rank <= MAX_RANK:
        why = "an interleaved or im2col tensor" if least > 1 else "a tensor"
        yield Problem(f"the rank of {why}", str(r.rank), f"{least} to {MAX_RANK} dimensions")
    unit = 32 if r.interleave == 2 else 16
    if r.address % unit:
        yield Problem(
            "the tensor is not aligned",
            f"address {r.address:#x}",
            f"a multiple of {unit}",
            "copy the view: x.clone() or x.copy()",
        )
    for i, dim in enumerate(r.dims):
        if not 1 <= dim <= 1 << 32:
            yield Problem("a size of the tensor", f"{dim} in dimension {i}", "1 to 2^32")
    for i, stride in enumerate(r.strides, 1):
        if stride % unit or not 0 <= stride < 1 << 40:
            yield Problem(
                "a stride of the tensor",
                f"{stride} bytes in dimension {i}",
                f"a multiple of {unit}, below 2^40",
                "pad the rows of the tensor: torch.empty(n, padded)[:, :k]",
            )


def _box(r: MapRequest) -> Iterator[Problem]:
    if len(r.box) != r.rank:
        yield Problem("the box", f"{len(r.box)} sizes", f"{r.rank}: one for each dimension")
        return
    for i, size in enumerate(r.box):
        if not 1 <= size <= MAX_BOX:
            yield Problem("a size of the box", f"{size} in dimension {i}", f"1 to {MAX_BOX}")
    yield from _inner(r, r.box[0] * r.kind.size)


def _inner(r: MapRequest, nbytes: int) -> Iterator[Problem]:
    """The bytes of the innermost dimension of the box."""
    if nbytes % 16:
        yield Problem(
            "the innermost dimension of the box", f"{nbytes} bytes", "a multiple of 16 bytes"
        )
    span = SWIZZLE_SPANS[r.swizzle] if r.swizzle < len(SWIZZLE_SPANS) else 0
    if r.swizzle and not r.interleave and nbytes > span:
        yield Problem(
            "the innermost dimension of the box is wider than the swizzle",
            f"{nbytes} bytes, swizzle={span}",
            f"at most {span} bytes",
            "take a smaller box and several copies, or swizzle=0",
        )


def _columns(r: MapRequest) -> Iterator[Problem]:
    assert r.lower is not None
    limit = _CORNERS.get(r.rank, 0)
    for name, corner in (("lower", r.lower), ("upper", r.upper)):
        if len(corner) != r.rank - 2:
            yield Problem(f"the {name} corner", f"{len(corner)} numbers", f"{r.rank - 2}")
        for x in corner:
            if not -limit <= x < limit:
                yield Problem(f"the {name} corner", str(x), f"{-limit} to {limit - 1}")
    for i, (first, dim, beyond) in enumerate(zip(r.lower, r.dims[1:], r.upper, strict=False)):
        if first > dim - 1 + beyond and not r.interleave:
            yield Problem(
                "the box of pixels is empty",
                f"{first} to {dim - 1 + beyond} in dimension {i + 1}",
                "a first pixel that is not behind the last",
            )
    if not 1 <= r.channels <= MAX_BOX:
        yield Problem("the channels of a pixel", str(r.channels), f"1 to {MAX_BOX}")
    if not 1 <= r.pixels <= MAX_PIXELS:
        yield Problem("the pixels of a column", str(r.pixels), f"1 to {MAX_PIXELS}")
    yield from _inner(r, r.channels * r.kind.size)


def _layout(r: MapRequest) -> Iterator[Problem]:
    for name, value, count in (
        ("interleave", r.interleave, 3),
        ("swizzle", r.swizzle, 4),
        ("l2", r.l2, 4),
    ):
        if not 0 <= value < count:
            yield Problem(f"{name} of a kind that sm_90 lacks", str(value), f"0 to {count - 1}")
    if r.interleave == 2 and r.swizzle != 1:
        yield Problem(
            "interleave=32 needs a swizzle of 32 bytes",
            f"swizzle={SWIZZLE_SPANS[r.swizzle] if r.swizzle else 0}",
            "swizzle=32",
        )
    if r.nan and not r.kind.is_float:
        yield Problem("integers cannot be filled with NaN", r.kind.name, "fill='zero'")
