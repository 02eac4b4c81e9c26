"""The job that the page sends: source, sizes, arrays, launches; read from JSON and validated."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

import weft.sanitizer
from weft.device.selection import select
from weft.errors import ArgumentError
from weft.measure import dtypes
from weft.measure.check import buffers, input_data
from weft.measure.dtypes import DType
from weft.measure.expressions import evaluate, wholes

KINDS = {"cuda": "kernel.cu", "triton": "kernel.py", "numba": "kernel.py"}
"""Languages, and the file name that messages show."""
LANGUAGES = {"cuda": "CUDA C++", "triton": "Triton", "numba": "Numba"}
FILLS = ("random", "zeros", "ones", "index", "uninitialised", "given")
"""Fillings by name; `a..b` draws whole numbers or floats between two expressions.

`given` is the data that the operation of the origin defines, e.g. sorted offsets.
"""
LONGEST, LONGEST_LINE, ROWS, MOST_BYTES = 1 << 20, 2000, 64, 1 << 30
"""Limits: characters of a source and of a line, rows of a table, bytes of all arrays."""
_MAIN = re.compile(r"^\s*(?:int|auto)\s+main\s*\(", re.M)
_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.S)
_NAME = re.compile(r"[A-Za-z_]\w{0,63}")


@dataclass(frozen=True)
class Array:
    """One row of the form; `shape` is an expression of the sizes, `out` marks a result."""

    name: str
    dtype: DType
    shape: str
    fill: str = "random"
    out: bool = False

    def dims(self, sizes: Mapping[str, Any]) -> tuple[int, ...]:
        """The shape for these sizes."""
        dims = wholes(f"({self.shape},)" if self.shape.strip() else "()", sizes)
        if any(n < 0 for n in dims):
            raise ArgumentError(f"the shape of '{self.name}' has a negative size", got=str(dims))
        return dims


@dataclass(frozen=True)
class Job:
    """One request.

    origin    the rung or exercise that the source was opened from
    gpus      keys of GPUs whose times an export predicts
    include   folders of headers; the server sets them, never the page
    defines   macros that the origin has; the server sets them
    """

    kind: str
    source: str
    sizes: Mapping[str, int | float]
    arrays: tuple[Array, ...]
    launches: tuple[str, ...]
    reference: str = ""
    origin: str = ""
    device: str = "sim"
    block: int = 0
    title: str = ""
    gpus: tuple[str, ...] = ()
    include: tuple[str, ...] = ()
    defines: Mapping[str, str] = field(default_factory=dict)

    @property
    def file(self) -> str:
        return KINDS[self.kind]

    @property
    def is_python(self) -> bool:
        """True if running it executes Python that the page sent."""
        return self.kind != "cuda"

    @property
    def is_program(self) -> bool:
        """True for a whole CUDA program: its host code runs, and launches its kernels."""
        return self.kind == "cuda" and _MAIN.search(_COMMENT.sub("", self.source)) is not None

    @property
    def needs_consent(self) -> bool:
        """True if running it executes code that has the user's rights."""
        return self.is_python or self.is_program

    @property
    def scope(self) -> dict[str, int | float]:
        """The names that expressions may use."""
        return {**self.sizes, "sms": select(self.device).model.sms}

    def make(self, given: Callable[[str], Any] | None = None) -> dict[str, Any]:
        """The arrays, filled; the same data in every run. `given` has the data of the origin."""
        scope = self.scope
        dims = {a.name: a.dims(scope) for a in self.arrays}
        total = sum(math.prod(dims[a.name]) * a.dtype.numpy.itemsize for a in self.arrays)
        if total > MOST_BYTES:
            raise ArgumentError(
                "the arrays are too large for the lab",
                got=f"{total:,} bytes",
                allowed=f"{MOST_BYTES:,} bytes in all",
                next="choose smaller sizes",
            )
        rng = np.random.default_rng(0)
        made = {
            a.name: given(a.name)
            if given is not None and a.fill == "given"
            else filled(a, dims[a.name], scope, rng)
            for a in self.arrays
        }
        # NumPy has no bfloat16, and Triton takes tensors.
        if self.kind != "triton" and not any(a.dtype.name == "bf16" for a in self.arrays):
            return made
        library = buffers.torch("cpu")
        return {a.name: buffers.copied(made[a.name], a.dtype, library) for a in self.arrays}


def filled(
    a: Array, shape: tuple[int, ...], scope: Mapping[str, Any], rng: np.random.Generator
) -> Any:
    """The stored bits of an array."""
    if a.fill == "uninitialised":
        return weft.sanitizer.empty(shape, a.dtype.numpy)
    if a.fill in ("zeros", "ones"):
        return a.dtype.encode(np.full(shape, float(a.fill == "ones")))
    if a.fill == "index":
        return a.dtype.encode(np.arange(math.prod(shape)).reshape(shape))
    if ".." in a.fill:
        low, _, high = a.fill.partition("..")
        bounds = float(evaluate(low, scope)), float(evaluate(high, scope))
        if not bounds[0] <= bounds[1]:
            raise ArgumentError(f"the range of '{a.name}' is empty", got=a.fill)
        return input_data.random(rng, shape, a.dtype, bounds)
    return input_data.random(rng, shape, a.dtype)


def own(file: str) -> bool:
    """Return True for the file of the editor.

    Triton's cache knows a kernel by its text: the file may be another one with the same source.
    """
    return file.rpartition("/")[2] == "kernel.cu" or (
        file.endswith(".py") and "site-packages" not in file
    )


# ---- from JSON -----------------------------------------------------------------------------------
def read(data: Mapping[str, Any]) -> Job:
    """The job of a request; raises ArgumentError."""
    kind = _text(data, "kind")
    if kind not in KINDS:
        raise ArgumentError("no such language", got=kind, allowed=", ".join(KINDS))
    sizes = {_name(row): _number(row) for row in _rows(data, "sizes")}
    arrays = tuple(_array(row) for row in _rows(data, "arrays"))
    twice = [a.name for i, a in enumerate(arrays) if a.name in {b.name for b in arrays[:i]}]
    if twice or sizes.keys() & {a.name for a in arrays}:
        names = twice or sorted(sizes.keys() & {a.name for a in arrays})
        raise ArgumentError("a name is used twice in the form", got=", ".join(names))
    launches = data.get("launches", [])
    if not isinstance(launches, list) or len(launches) > ROWS:
        raise ArgumentError("launches are a list of lines", got=type(launches).__name__)
    if any("\n" in str(line).strip() for line in launches):
        raise ArgumentError("a launch is one line", got=str(launches)[:80])
    device = _text(data, "device") or "sim"
    if select(device).real:
        raise ArgumentError("the lab runs on the simulated GPU", got=device, allowed="sim:MODEL")
    block = data.get("block", 0)
    if type(block) is not int or block < 0:
        raise ArgumentError("a block is a number, 0 or above", got=repr(block))
    return Job(
        kind, _text(data, "source"), sizes, arrays,
        tuple(str(line).strip()[:LONGEST_LINE] for line in launches if str(line).strip()),
        _text(data, "reference"), _text(data, "origin"), device, block,
        _text(data, "title"), _gpus(data),
    )  # fmt: skip


def _gpus(data: Mapping[str, Any]) -> tuple[str, ...]:
    keys = data.get("gpus", [])
    if not isinstance(keys, list) or len(keys) > ROWS or any(not isinstance(k, str) for k in keys):
        raise ArgumentError("'gpus' is a list of names", got=repr(keys)[:80])
    return tuple(keys)


def _text(data: Mapping[str, Any], key: str) -> str:
    value = data.get(key, "")
    if not isinstance(value, str) or len(value) > LONGEST:
        raise ArgumentError(f"'{key}' is a text of at most {LONGEST:,} characters")
    return value


def _rows(data: Mapping[str, Any], key: str) -> Sequence[Mapping[str, Any]]:
    rows = data.get(key, [])
    fits = isinstance(rows, list) and len(rows) <= ROWS and all(isinstance(r, dict) for r in rows)
    if not fits:
        raise ArgumentError(f"'{key}' is a list of at most {ROWS} rows")
    return rows  # type: ignore[no-any-return]


def _name(row: Mapping[str, Any]) -> str:
    name = str(row.get("name", "")).strip()
    if not _NAME.fullmatch(name):
        raise ArgumentError(
            "a row of the form has no name that a kernel can use",
            got=repr(name),
            allowed="letters, digits and _",
        )
    return name


def _number(row: Mapping[str, Any]) -> int | float:
    value = row.get("value")
    text = value.strip() if isinstance(value, str) else repr(value)
    try:
        return int(text, 0)
    except ValueError:
        pass
    try:
        return float(text)
    except ValueError:
        raise ArgumentError(f"the value of '{_name(row)}' is no number", got=text[:40]) from None


def _array(row: Mapping[str, Any]) -> Array:
    name, fill = _name(row), str(row.get("fill", "random")).strip()
    if fill not in FILLS and ".." not in fill:
        raise ArgumentError(
            f"no such data for '{name}'", got=fill, allowed=f"{', '.join(FILLS)}, or 0..9"
        )
    dtype = dtypes.find(str(row.get("dtype", "f32")))
    return Array(name, dtype, str(row.get("shape", "")), fill, bool(row.get("out")))
