"""The parts of the runtime library: their files, and which functions of CUDA each has.

Every program needs the core: memory, copies, launches, streams. The other parts are compiled when
the first program calls one of their functions.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable
from hashlib import sha256
from pathlib import Path

from weft.source.toolkit import LIBRARIES

CORE, DRIVER, PROCESSES, TRACED = "core", "driver", "processes", "traced"
SHIM = Path(__file__).parent / "shim"
_FOLDERS = ("textures", "graphs", PROCESSES, DRIVER, TRACED)
"""Parts of CUDA's own interfaces, in the order in which they are loaded; TRACED has the ranges of
NVTX, for a timeline."""
_PREFIXES = (
    (r"cublasLt", "cublaslt"),
    (r"cublasXt", "cublasxt"),
    (r"cublas", "cublas"),
    (r"cudnn", "cudnn"),
    (r"cufft", "cufft"),
    (r"curand", "curand"),
    (r"cusolver", "cusolver"),
    (r"cusparse", "cusparse"),
    (r"nccl[A-Z]", "nccl"),
    (r"nvJitLink", "nvjitlink"),
    (r"cu[A-Z]", DRIVER),
)
"""The part with functions whose names begin so; the first row that matches counts."""
_NEEDS = {
    "graphs": ("textures",),
    DRIVER: ("textures", "graphs", PROCESSES),
    "cublasxt": ("cublas",),
}
"""Part -> parts whose functions it calls, besides the core's."""
_FUNCTION = re.compile(r"^API\s[^;{(]*?(\w+)\s*\(", re.MULTILINE)
_WRAP = "__wrap_"
"""The linker's prefix for functions that replace others."""
_VERSION = re.compile(r"_v\d$")
"""The header of the driver's interface adds it to names: `cuArrayCreate_v2`."""


@functools.cache
def names() -> tuple[str, ...]:
    """All parts, in an order in which each comes after those that it needs."""
    libraries = (p for p in (SHIM / "libraries").iterdir() if p.is_dir() or p.suffix == ".cpp")
    return (CORE, *_FOLDERS, *sorted(path.stem for path in libraries))


def sources(part: str) -> list[Path]:
    """The C++ files of a part."""
    if part == CORE:
        return sorted(SHIM.glob("*.cpp"))
    folder = SHIM / part if part in _FOLDERS else SHIM / "libraries" / part
    return sorted(folder.glob("*.cpp")) or [folder.with_suffix(".cpp")]


def needed(symbols: Iterable[str]) -> tuple[str, ...]:
    """The parts that serve these functions, the core first."""
    direct = {part for symbol in symbols if (part := part_of(symbol))}
    every = {CORE, *direct, *(other for part in direct for other in _NEEDS.get(part, ()))}
    return tuple(part for part in names() if part in every)


def needs(part: str) -> tuple[str, ...]:
    """The parts whose functions a part calls."""
    return () if part == CORE else (CORE, *_NEEDS.get(part, ()))


def wrapped(symbols: Iterable[str]) -> list[str]:
    """Functions of the system for which a program has to call weft's instead."""
    return [symbol for symbol in sorted(symbols) if _WRAP + symbol in _functions()]


def serves(symbol: str) -> bool:
    """Decide whether weft has a function, or one of its versions."""
    return _VERSION.sub("", symbol) in _functions()


def part_of(symbol: str) -> str | None:
    """The part that has a function, or would have it: what it lacks becomes a stub."""
    for name in (_VERSION.sub("", symbol), _WRAP + symbol):
        if part := _functions().get(name):
            return part
    return next((part for begins, part in _PREFIXES if re.match(begins, symbol)), None)


@functools.cache
def _functions() -> dict[str, str]:
    """Functions of the parts in folders; names that macros make are found by their prefix."""
    return {
        name: part
        for part in _FOLDERS
        for path in sources(part)
        for name in _FUNCTION.findall(path.read_text("utf-8"))
    }


@functools.cache
def digest(*chosen: str) -> str:
    """A digest of the files of these parts and of all headers: an edited part is compiled again."""
    paths = [path for part in chosen for path in sources(part)]
    whole = sha256()
    for path in sorted([*paths, *SHIM.rglob("*.h"), *LIBRARIES.iterdir()]):
        text = path.read_bytes()
        whole.update(f"{path.name}:{len(text)}:".encode() + text)
    return whole.hexdigest()
