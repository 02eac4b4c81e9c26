"""Builds a shared object from sources, and caches it: a program with its `main`, or a library.

A cached build is found in two steps: the sources and flags give the list of files it was last
made of (the compiler's own), and the contents of these give the result. Toolkit and compiler are
part of both keys, headers of the toolkit are not listed. Everything is made in a temporary folder
and stored whole, so a build that is killed leaves nothing behind that could be used.
"""

from __future__ import annotations

import functools
import json
import os
import sys
import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

from weft import cache, progress
from weft.errors import Error
from weft.frontends.program import flags as user_flags
from weft.frontends.program import library, stubs
from weft.frontends.program.library import FORMAT, SHARED
from weft.frontends.program.parallel import parallel
from weft.source.toolkit import HEADERS, LIBRARIES, Toolkit, shared_library

_HERE = Path(__file__).parent
_START = _HERE / "start" / "start.cpp"
LINES = ["-Xcompiler", "-g1"]
"""Lines of the host's code, which the sanitizer names."""


@dataclass(frozen=True)
class Program:
    """A built program: itself, the library that serves it, and the user's files it is made of."""

    code: bytes
    library: bytes
    files: tuple[str, ...]


@dataclass(frozen=True)
class Step:
    """A source file and the command that compiles it, but for input, output and listing."""

    path: str
    command: tuple[str, ...]


def build(sources: Sequence[str], flags: Sequence[str], arch: str, toolkit: Toolkit) -> Program:
    """Compiles and links a program, unless the cache has it."""
    flags = user_flags.wanted(flags)
    command = (toolkit.nvcc, *device_options(arch), *LINES, *flags)
    steps = [Step(os.path.abspath(path), command) for path in sources]
    code, files = make(steps, user_flags.for_linking(flags), toolkit, main=True)
    return Program(code, library.runtime_library(toolkit), files)


def device_options(arch: str) -> list[str]:
    """Options of nvcc for device code that weft can load: uncompressed PTX."""
    code = ["-gencode", f"arch={arch},code={arch}", "--no-compress", "-lineinfo"]
    return [*code, "-Xcompiler", "-fPIC", *HEADERS]


def make(
    steps: Sequence[Step], link: Sequence[str], toolkit: Toolkit, *, main: bool
) -> tuple[bytes, tuple[str, ...]]:
    """The shared object and the user's files it is made of.

    main  whether it is a program; a library starts the runtime itself when it is loaded
    """
    for step in steps:
        if not os.path.isfile(step.path):
            raise Error("no such file", where=step.path)
    shim = library.files() | {_START.name: _START.read_text()}
    asked = (FORMAT, toolkit.identity, os.getcwd(), [vars(s) for s in steps], link, main, shim)
    listed = cache.key("files", *asked)
    files = json.loads(cache.get("program", listed) or b"[]")
    if files and (code := cache.get("program", _key(asked, files))) is not None:
        return code, tuple(files)
    code, files = _made(steps, link, toolkit, main)
    cache.put("program", _key(asked, files), code)
    cache.put("program", listed, json.dumps(files).encode())
    return code, tuple(files)


def _key(asked: Iterable[object], files: Iterable[str]) -> str:
    return cache.key("program", *asked, [(path, _digest(path)) for path in files])


def _digest(path: str) -> str:
    try:
        return sha256(Path(path).read_bytes()).hexdigest()
    except OSError:  # a header that is gone: the program is no longer what it was
        return ""


def _made(
    steps: Sequence[Step], link: Sequence[str], toolkit: Toolkit, main: bool
) -> tuple[bytes, list[str]]:
    with tempfile.TemporaryDirectory(prefix="weft-") as name:
        folder = Path(name)
        objects = [folder / f"{i}.o" for i in range(len(steps))]

        def compile(step: Step, out: Path) -> None:
            listing = ["-MMD", "-MF", str(out.with_suffix(".d"))]
            command = [*step.command, *listing, "-c", step.path, "-o", str(out)]
            output = toolkit.call(command, what=f"compile {step.path}")
            if output:
                print(output, file=sys.stderr)

        progress.say(f"compiling {', '.join(os.path.basename(step.path) for step in steps)}")
        pairs = zip(steps, objects, strict=True)
        parallel([functools.partial(compile, step, out) for step, out in pairs])
        code = linked(objects, link, toolkit, main=main)
        files = {file for each in objects for file in _listed(each.with_suffix(".d"), toolkit)}
        return code, sorted(files | {step.path for step in steps})


def linked(objects: Sequence[Path], flags: Sequence[str], toolkit: Toolkit, *, main: bool) -> bytes:
    """Links objects to a program or a library."""
    with tempfile.TemporaryDirectory(prefix="weft-") as name:
        folder = Path(name)
        served = folder / library.NAME
        served.write_bytes(library.runtime_library(toolkit))
        (folder / "stubs.cpp").write_text(stubs.source(objects, served, main=main))
        out = folder / "out.so"
        link = [*SHARED, *flags, *map(str, objects), str(folder / "stubs.cpp")]
        # -z defs: an undefined symbol of a program is an error now, not at the first call. A
        # library loads the runtime library itself (start.cpp).
        link += [str(served), "-Xlinker", "-z,defs"] if main else [str(_START)]
        link += _as_needed(toolkit_libraries())
        toolkit.run([*link, "-o", str(out)], what="link the program")
        return out.read_bytes()


def toolkit_libraries() -> list[str]:
    """Libraries of NVIDIA's that run without a GPU."""
    return [path for name in ("libnvrtc.so",) if (path := shared_library(name)) is not None]


def _as_needed(libraries: Sequence[str]) -> list[str]:
    """Flags that link a library where it is, if a function of it is called."""
    return [
        word
        for path in libraries
        for word in ("-Xlinker", f"--as-needed,{path},-rpath,{os.path.dirname(path)}")
    ]


def _listed(listing: Path, toolkit: Toolkit) -> list[str]:
    """The files that the compiler read, but for the toolkit's own and weft's."""
    # Make syntax: a backslash continues a line or escapes a space.
    words = listing.read_text().replace("\\\n", " ").replace("\\ ", "\0").split()
    # The target is "0.o :" of nvcc, and "0.o:" of g++.
    names = (word.replace("\0", " ") for word in words[1:] if word != ":")
    files = (os.path.abspath(name) for name in names)
    return [file for file in files if not _of_toolkit(file, toolkit)]


def _of_toolkit(file: str, toolkit: Toolkit) -> bool:
    root = os.path.dirname(os.path.dirname(os.path.realpath(toolkit.nvcc)))
    roots = (root if root not in ("/usr", "/usr/local") else "/usr/local/cuda", str(LIBRARIES))
    return file.startswith(roots) or "/nvidia/cu13/" in file
