"""Rows that the form lacks, from the parameters of the source's kernels."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from weft.kernels import Kernel
from weft.lab.job import Job
from weft.measure import dtypes

SIZE, BLOCK = 1024, 256
_COUNTS = ("n", "N", "size", "count", "length")


def rows(job: Job, kernels: Sequence[Kernel]) -> dict[str, Any]:
    """Sizes, arrays and launches for parameters that have none; the user's rows stay."""
    have = {*job.sizes, *(a.name for a in job.arrays)}
    launched = {line.partition("<<<")[0].strip() for line in job.launches}
    sizes: dict[str, Any] = {}
    arrays: list[dict[str, Any]] = []
    for kernel in kernels:
        for name, ctype in zip(kernel.packer.names, kernel.packer.types, strict=True):
            if name in have or ctype is None:
                continue
            have.add(name)
            if ctype.pointer:
                arrays.append(_array(name, ctype.dtypes, ctype.const))
            else:
                sizes[name] = 1.0 if ctype.format in "efd" else SIZE
    length = next((n for n in (*_COUNTS, *sizes) if n in have), str(SIZE))
    for row in arrays:
        row["shape"] = length
    known = bool(launched)
    lines = [] if known else [_launch(k, length) for k in kernels[:1]]
    return {
        "sizes": [{"name": n, "value": v} for n, v in sizes.items()],
        "arrays": arrays,
        "launches": lines,
    }


def _array(name: str, names: tuple[str, ...], const: bool) -> dict[str, Any]:
    # `float2*` also takes complex numbers, which no check knows.
    plain = [n for n in names if not n.startswith("complex")]
    dtype = dtypes.find(plain[0] if plain else "f32")
    random = "random" if dtype.floating or dtype.name == "bool" else "0..9"
    # A parameter that the kernel cannot write is an input, any other one a result.
    return {
        "name": name,
        "dtype": dtype.name,
        "fill": random if const else "uninitialised",
        "out": not const,
    }


def _launch(kernel: Kernel, length: str) -> str:
    return f"{kernel.name}<<<cdiv({length}, {BLOCK}), {BLOCK}>>>"
