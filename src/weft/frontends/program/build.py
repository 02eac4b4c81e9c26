"""Builds a shared object with the program's `main` from its sources, and caches it.

A cached program is found in two steps: the sources and flags give the list of files it was last
made of (the compiler's own), and the contents of these give the program. Toolkit and compiler are
part of both keys, headers of the toolkit are not listed. Everything is made in a temporary folder
and stored whole, so a build that is killed leaves nothing behind that could be used.
"""

from __future__ import annotations

import contextlib
import fcntl
import functools
import json
import os
import re
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

from weft import cache, progress
from weft.errors import Error
from weft.frontends.program import flags as user_flags
from weft.frontends.program import stubs
from weft.frontends.program.toolkit import Toolkit

FORMAT = 2
"""Increment this when the build changes: it is part of the cache keys."""

_HERE = Path(__file__).parent
_SHIM = _HERE / "shim"
HEADERS = ["-Xcompiler", f"-idirafter,{_HERE / 'include'}"]
"""Headers of libraries that a toolkit may lack; its own come first."""
_SHARED = ["-shared", "-cudart", "none", "-Xcompiler", "-fPIC"]
_PTX_ONLY = ["--no-compress", "-lineinfo", "-Xcompiler", "-fPIC,-g1"]  # with lines of the host's
LIBRARY = "libweftcudart.so"
_ERROR_NAMES = re.compile(r"\b(cuda(?:Success|Error\w+))\s*=\s*(\d+)")


@dataclass(frozen=True)
class Program:
    """A built program: itself, the library that serves it, and the user's files it is made of."""

    code: bytes
    library: bytes
    files: tuple[str, ...]


def build(sources: Sequence[str], flags: Sequence[str], arch: str, toolkit: Toolkit) -> Program:
    """Compiles and links, unless the cache has the program."""
    for path in sources:
        if not os.path.isfile(path):
            raise Error("no such file", where=path)
    paths, flags = [os.path.abspath(path) for path in sources], user_flags.wanted(flags)
    shim = _shim_files()
    asked = (FORMAT, toolkit.identity, os.getcwd(), paths, list(flags), arch, shim)
    library = _library(cache.key(FORMAT, toolkit.identity, shim), toolkit)
    listed = cache.key("files", *asked)
    files = json.loads(cache.get("program", listed) or b"[]")
    if files and (code := cache.get("program", _key(asked, files))) is not None:
        return Program(code, library, tuple(files))
    code, files = _program(paths, flags, arch, toolkit, library)
    cache.put("program", _key(asked, files), code)
    cache.put("program", listed, json.dumps(files).encode())
    return Program(code, library, tuple(files))


def _key(asked: Iterable[object], files: Iterable[str]) -> str:
    return cache.key("program", *asked, [(path, _digest(path)) for path in files])


def _digest(path: str) -> str:
    try:
        return sha256(Path(path).read_bytes()).hexdigest()
    except OSError:  # a header that is gone: the program is no longer what it was
        return ""


def _parallel(work: Sequence[Callable[[], None]]) -> None:
    with ThreadPoolExecutor(min(len(work), _cores())) as pool:
        waiting = [pool.submit(each) for each in work]
        try:
            for done in waiting:
                done.result()
        except BaseException:  # an error or Ctrl-C: cancel what has not started
            pool.shutdown(wait=False, cancel_futures=True)
            raise


def _cores() -> int:
    return os.cpu_count() or 1


# ---- the library --------------------------------------------------------------------------------
def _shim_files() -> dict[str, str]:
    files = [*_SHIM.iterdir(), *(_HERE / "include").iterdir()]
    return {file.name: file.read_text() for file in sorted(files)}


def _library(key: str, toolkit: Toolkit) -> bytes:
    """The runtime library for this toolkit, compiled once."""
    if (library := cache.get("library", key)) is not None:
        return library
    with _alone(), tempfile.TemporaryDirectory(prefix="weft-") as folder:
        if (library := cache.get("library", key)) is None:
            library = _compiled_library(toolkit, Path(folder))
            cache.put("library", key, library)
    return library


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


def _compiled_library(toolkit: Toolkit, folder: Path) -> bytes:
    """Compiled against the headers of this toolkit, which take longer than weft's own lines.

    So there is one unit for each core, which includes its share of the files.
    """
    progress.say("compiling the runtime library for this toolkit (once)")
    (folder / "names.inc").write_text(_error_names(toolkit, folder))
    options = ["-x", "c++", "-std=c++17", "-O1", "-I", str(folder), *HEADERS]
    options += ["-Xcompiler", "-fPIC,-fvisibility=hidden"]
    sources = sorted(_SHIM.glob("*.cpp"))
    count = min(len(sources), _cores())
    units = [folder / f"unit_{i}.cpp" for i in range(count)]
    for i, unit in enumerate(units):
        unit.write_text("".join(f'#include "{path}"\n' for path in sources[i::count]))

    def compile(unit: Path) -> None:
        out = str(unit.with_suffix(".o"))
        toolkit.run([*options, "-c", str(unit), "-o", out], what="compile weft's runtime library")

    _parallel([functools.partial(compile, unit) for unit in units])
    out = folder / LIBRARY
    named = ["-Xlinker", f"-soname={LIBRARY}"]
    objects = [str(unit.with_suffix(".o")) for unit in units]
    toolkit.run([*_SHARED, *named, *objects, "-o", str(out)], what="link weft's own library")
    return out.read_bytes()


def _error_names(toolkit: Toolkit, folder: Path) -> str:
    """A row for each value of cudaError_t, as this toolkit has them."""
    unit = folder / "errors.cpp"
    unit.write_text("#include <cuda_runtime_api.h>\n")
    text = toolkit.run(["-x", "c++", "-E", str(unit)], what="read cuda_runtime_api.h")
    return "".join(f'{{{number}, "{name}"}},\n' for name, number in _ERROR_NAMES.findall(text))


# ---- a program ----------------------------------------------------------------------------------
def _program(
    paths: Sequence[str], flags: Sequence[str], arch: str, toolkit: Toolkit, library: bytes
) -> tuple[bytes, list[str]]:
    with tempfile.TemporaryDirectory(prefix="weft-") as name:
        folder = Path(name)
        (folder / LIBRARY).write_bytes(library)
        options = ["-gencode", f"arch={arch},code={arch}", *_PTX_ONLY, *HEADERS, *flags]
        objects = [folder / f"{i}.o" for i in range(len(paths))]

        def compile(path: str, out: Path) -> None:
            listing = ["-MMD", "-MF", str(out.with_suffix(".d"))]
            output = toolkit.run(
                [*options, *listing, "-c", path, "-o", str(out)], what=f"compile {path}"
            )
            if output:
                print(output, file=sys.stderr)

        progress.say(f"compiling {', '.join(os.path.basename(path) for path in paths)}")
        pairs = zip(paths, objects, strict=True)
        _parallel([functools.partial(compile, path, out) for path, out in pairs])
        (folder / "stubs.cpp").write_text(stubs.source(objects, folder / LIBRARY))
        out = folder / "program.so"
        link = [*_SHARED, *user_flags.for_linking(flags), *map(str, objects)]
        # -z defs: an undefined symbol is an error now, not at the first call.
        link += [str(folder / "stubs.cpp"), str(folder / LIBRARY), "-Xlinker", "-z,defs"]
        toolkit.run([*link, "-o", str(out)], what="link the program")
        files = {file for each in objects for file in _listed(each.with_suffix(".d"), toolkit)}
        return out.read_bytes(), sorted(files | set(paths))


def _listed(listing: Path, toolkit: Toolkit) -> list[str]:
    """The files that the compiler read, but for the toolkit's own and weft's."""
    # Make syntax: a backslash continues a line or escapes a space.
    words = listing.read_text().replace("\\\n", " ").replace("\\ ", "\0").split()
    files = (os.path.abspath(word.replace("\0", " ")) for word in words[2:])
    return [file for file in files if not _of_toolkit(file, toolkit)]


def _of_toolkit(file: str, toolkit: Toolkit) -> bool:
    root = os.path.dirname(os.path.dirname(os.path.realpath(toolkit.nvcc)))
    roots = (root if root not in ("/usr", "/usr/local") else "/usr/local/cuda", str(_HERE))
    return file.startswith(roots) or "/nvidia/cu13/" in file
