"""Compiles the runtime library that serves programs, once for each toolkit, and caches it.

It is a shared object for each part (parts.py). A program has the core and the parts that it calls.
"""

from __future__ import annotations

import contextlib
import fcntl
import functools
import os
import re
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from weft import cache, progress
from weft.frontends.program import parts as library_parts
from weft.frontends.program import stubs
from weft.frontends.program.parallel import parallel
from weft.frontends.program.parts import CORE, DRIVER, SHIM, TRACED
from weft.source.toolkit import HEADER, LIBRARIES, Toolkit

FORMAT = 8
"""Increment this when the build changes: it is part of the cache keys."""

_ERROR_NAMES = re.compile(r"\b(cuda(?:Success|Error\w+))\s*=\s*(\d+)")
_DRIVER_FUNCTIONS = re.compile(r"\bCUresult\s+(cu[A-Z]\w*)\s*\(")
_CORE_FLAGS = ("-O0", "-fno-rtti", "-fno-exceptions")
"""The core is compiled in the first run of a program, and spends its time in Python and in libc."""
_FLAGS = ("-O1", "-ffp-contract=off")
"""Textures are filtered by exact steps: no product may be fused with a sum."""
_TRACING = ("-finstrument-functions",)
"""Every function reports when it begins and ends (`shim/trace.cpp`)."""


def file_name(part: str) -> str:
    """The name by which programs are linked with a part."""
    return f"libweft_{part}.so"


def runtime_library(toolkit: Toolkit, parts: Sequence[str], *, traced: bool = False) -> list[bytes]:
    """The shared objects of these parts; what is not cached is compiled, in parallel.

    traced  whether calls of their functions are reported; then the part TRACED is the last one
    """
    parts = [*parts, TRACED] if traced else parts
    held = {part: cache.get("library", _key(toolkit, part, traced)) for part in parts}
    if missing := [part for part, data in held.items() if data is None]:
        what = "" if missing == [CORE] else f" ({', '.join(missing)})"
        what += " with its calls traced" * traced
        progress.say(f"compiling the runtime library{what} for this toolkit (once)")

        def compile(part: str) -> None:
            held[part] = _part(toolkit, part, traced)

        parallel([functools.partial(compile, part) for part in missing])
    return [data for data in held.values() if data is not None]


def _key(toolkit: Toolkit, part: str, traced: bool) -> str:
    variant = ("traced",) * traced
    return cache.key(FORMAT, toolkit.identity, part, library_parts.digest(part), *variant)


def _part(toolkit: Toolkit, part: str, traced: bool) -> bytes:
    key = _key(toolkit, part, traced)
    with _alone(part), tempfile.TemporaryDirectory(prefix="weft-") as folder:
        if (data := cache.get("library", key)) is None:
            data = _compiled(toolkit, part, Path(folder), traced and part != TRACED)
            cache.put("library", key, data)
    return data


@contextlib.contextmanager
def _alone(part: str) -> Iterator[None]:
    """Lock a part: other processes that need it wait for the first, which compiles it."""
    handle = os.open(os.path.join(cache.folder("locks"), part), os.O_RDWR | os.O_CREAT, 0o600)
    try:
        with contextlib.suppress(OSError):  # a file system without locks: each compiles its own
            fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


def _compiled(toolkit: Toolkit, part: str, folder: Path, traced: bool) -> bytes:
    """Compile a part as one unit: the headers take as long as weft's own lines."""
    unit, out = folder / "unit.cpp", folder / file_name(part)
    sources = [*[SHIM / "traced" / "calls.h"] * traced, *library_parts.sources(part)]
    included = "".join(f'#include "{path}"\n' for path in sources)
    unit.write_text(included, encoding="utf-8")
    units = [unit]
    if part == CORE:
        (folder / "names.inc").write_text(_error_names(toolkit), encoding="utf-8")
    if part == DRIVER:
        units.append(folder / "unserved.cpp")
        units[-1].write_text(_unserved(toolkit), encoding="utf-8")
    options = ["-std=c++17", *(_CORE_FLAGS if part == CORE else _FLAGS), "-fvisibility=hidden"]
    options += _TRACING if traced else ()
    options += ["-I", str(folder), "-I", toolkit.include, "-idirafter", str(LIBRARIES)]
    # A Python process may have loaded NVIDIA's libcudart, whose functions have the same names.
    link = [f"-Wl,-soname,{out.name},-Bsymbolic-functions,--no-as-needed"]
    link += [_empty(toolkit, folder / file_name(need)) for need in library_parts.needs(part)]
    command = [toolkit.host, *options, "-fPIC", "-shared", *map(str, units), "-o", str(out), *link]
    toolkit.call(command, what=f"compile weft's runtime library ({part})")
    return out.read_bytes()


def _unserved(toolkit: Toolkit) -> str:
    """Stubs of the functions of the driver's header of which the part has no version.

    A program may ask for any of them by name (`cuGetProcAddress`), and gets the newest version.
    """
    header = os.path.join(toolkit.include, "cuda.h")
    command = [toolkit.host, "-E", "-P", "-x", "c++", "-I", toolkit.include, header]
    text = toolkit.call(command, what="read cuda.h")
    names = set(_DRIVER_FUNCTIONS.findall(text))
    others = (name for name in names if not library_parts.serves(name))
    return stubs.weak(name for name in others if library_parts.part_of(name) == DRIVER)


def _empty(toolkit: Toolkit, path: Path) -> str:
    """A library in place of a part that another one depends on: only its name is linked."""
    command = [toolkit.host, "-shared", "-nostdlib", "-x", "c", os.devnull, "-o", str(path)]
    toolkit.call([*command, f"-Wl,-soname,{path.name}"], what=f"make {path.name}")
    return str(path)


def _error_names(toolkit: Toolkit) -> str:
    """A row for each value of cudaError_t, as this toolkit has them."""
    text = (Path(toolkit.include) / HEADER).read_text("utf-8")
    return "".join(f'{{{number}, "{name}"}},\n' for name, number in _ERROR_NAMES.findall(text))
