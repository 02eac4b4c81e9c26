"""Compiles the runtime library that serves programs, once for each toolkit, and caches it."""

from __future__ import annotations

import contextlib
import fcntl
import functools
import os
import re
import tempfile
from collections.abc import Iterator
from pathlib import Path

from weft import cache, progress
from weft.frontends.program.parallel import cores, parallel
from weft.source.toolkit import HEADERS, LIBRARIES, Toolkit

FORMAT = 4
"""Increment this when the build changes: it is part of the cache keys."""

NAME = "libweftcudart.so"
_HERE = Path(__file__).parent
_SHIM = _HERE / "shim"
SHARED = ["-shared", "-cudart", "none", "-Xcompiler", "-fPIC"]
_ERROR_NAMES = re.compile(r"\b(cuda(?:Success|Error\w+))\s*=\s*(\d+)")


def runtime_library(toolkit: Toolkit) -> bytes:
    """The runtime library for this toolkit."""
    key = cache.key(FORMAT, toolkit.identity, files())
    if (data := cache.get("library", key)) is not None:
        return data
    with _alone(), tempfile.TemporaryDirectory(prefix="weft-") as folder:
        if (data := cache.get("library", key)) is None:
            data = _compiled(toolkit, Path(folder))
            cache.put("library", key, data)
    return data


@functools.cache
def files() -> dict[str, str]:
    """The sources of the library and its headers by name."""
    paths = [*_SHIM.rglob("*.cpp"), *_SHIM.rglob("*.h"), *LIBRARIES.iterdir()]
    return {f"{path.parent.name}/{path.name}": path.read_text() for path in sorted(paths)}


@contextlib.contextmanager
def _alone() -> Iterator[None]:
    """Processes that need the library at the same time wait for the first, which compiles it."""
    handle = os.open(cache.folder("library"), os.O_RDONLY)
    try:
        with contextlib.suppress(OSError):  # a file system without locks: each compiles its own
            fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


def _compiled(toolkit: Toolkit, folder: Path) -> bytes:
    """Compiled against the headers of this toolkit, which take longer than weft's own lines.

    So there is one unit for each core, which includes its share of the files.
    """
    progress.say("compiling the runtime library for this toolkit (once)")
    (folder / "names.inc").write_text(_error_names(toolkit, folder))
    options = ["-x", "c++", "-std=c++17", "-O1", "-I", str(folder), *HEADERS]
    # Textures are filtered by exact steps: no product may be fused with a sum.
    options += ["-Xcompiler", "-fPIC,-fvisibility=hidden,-ffp-contract=off"]
    sources = sorted(_SHIM.rglob("*.cpp"))
    count = min(len(sources), cores())
    units = [folder / f"unit_{i}.cpp" for i in range(count)]
    for i, unit in enumerate(units):
        unit.write_text("".join(f'#include "{path}"\n' for path in sources[i::count]))

    def compile(unit: Path) -> None:
        out = str(unit.with_suffix(".o"))
        toolkit.run([*options, "-c", str(unit), "-o", out], what="compile weft's runtime library")

    parallel([functools.partial(compile, unit) for unit in units])
    out = folder / NAME
    named = ["-Xlinker", f"-soname={NAME}"]
    # A Python process may have loaded NVIDIA's libcudart, whose functions have the same names.
    named += ["-Xlinker", "-Bsymbolic-functions"]
    objects = [str(unit.with_suffix(".o")) for unit in units]
    toolkit.run([*SHARED, *named, *objects, "-o", str(out)], what="link weft's own library")
    return out.read_bytes()


def _error_names(toolkit: Toolkit, folder: Path) -> str:
    """A row for each value of cudaError_t, as this toolkit has them."""
    unit = folder / "errors.cpp"
    unit.write_text("#include <cuda_runtime_api.h>\n")
    text = toolkit.run(["-x", "c++", "-E", str(unit)], what="read cuda_runtime_api.h")
    return "".join(f'{{{number}, "{name}"}},\n' for name, number in _ERROR_NAMES.findall(text))
