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
from weft.frontends.program import parts as library_parts
from weft.frontends.program import stubs
from weft.frontends.program.library import FORMAT, file_name, runtime_library
from weft.frontends.program.parallel import parallel
from weft.frontends.program.steps import compile as compile_in_steps
from weft.source.toolkit import LIBRARIES, SIGNED_CHARS, Toolkit, header_options, shared_library

_HERE = Path(__file__).parent
_START = _HERE / "start" / "start.cpp"
SHARED = ["-shared", "-cudart", "none", "-Xcompiler", "-fPIC"]
LINES = ["-Xcompiler", "-g1"]
"""Lines of the host's code, which the sanitizer names."""


@dataclass(frozen=True)
class BuiltProgram:
    """A built program: itself, the library that serves it, and the user's files it is made of."""

    code: bytes
    library: Sequence[bytes]
    files: tuple[str, ...]


@dataclass(frozen=True)
class Made:
    """A shared object, the parts of the runtime library that it calls, the user's files."""

    code: bytes
    parts: tuple[str, ...]
    files: tuple[str, ...]


@dataclass(frozen=True)
class CompileStep:
    """A source file and the command that compiles it, but for input, output and listing."""

    path: str
    command: tuple[str, ...]


def build(
    sources: Sequence[str],
    flags: Sequence[str],
    arch: str,
    toolkit: Toolkit,
    *,
    traced: bool = False,
) -> BuiltProgram:
    """Compile and link a program, unless the cache has it; a timeline has its calls `traced`."""
    flags = user_flags.wanted(user_flags.versioned(flags))
    options = device_options(arch)
    if "-G" in flags:  # it has the lines; nvcc warns of both
        options.remove("-lineinfo")
    command = (toolkit.nvcc, *options, *LINES, *flags)
    steps = [CompileStep(os.path.abspath(path), command) for path in sources]
    made = make(steps, user_flags.for_linking(flags), toolkit, main=True)
    library = runtime_library(toolkit, made.parts, traced=traced)
    return BuiltProgram(made.code, library, made.files)


def device_options(arch: str) -> list[str]:
    """Options of nvcc for device code that weft can load: uncompressed PTX."""
    code = ["-gencode", f"arch={arch},code={arch}", "--no-compress", "-lineinfo"]
    return [*code, *SIGNED_CHARS, "-Xcompiler", "-fPIC", *header_options()]


def make(
    steps: Sequence[CompileStep], link: Sequence[str], toolkit: Toolkit, *, main: bool
) -> Made:
    """Compile and link files, unless the cache has the result.

    main  whether it is a program; a library starts the runtime itself when it is loaded
    """
    for step in steps:
        if not os.path.isfile(step.path):
            raise Error("no such file", where=step.path)
    shim = (library_parts.digest(*library_parts.names()), _START.read_text("utf-8"))
    asked = (FORMAT, toolkit.identity, os.getcwd(), [vars(s) for s in steps], link, main, shim)
    listed = cache.key("files", *asked)
    if (listing := cache.get("program", listed)) is not None:
        parts, files = json.loads(listing)
        if (code := cache.get("program", _key(asked, files))) is not None:
            return Made(code, tuple(parts), tuple(files))
    with progress.building(", ".join(os.path.basename(step.path) for step in steps)):
        made = _made(steps, link, toolkit, main)
    listing = json.dumps([made.parts, made.files]).encode()
    kept = cache.put("program", _key(asked, made.files), made.code)
    if not (kept and cache.put("program", listed, listing)):
        cache.warn_if_unusable()
    return made


def _key(asked: Iterable[object], files: Iterable[str]) -> str:
    return cache.key("program", *asked, [(path, _digest(path)) for path in files])


def _digest(path: str) -> str:
    try:
        return sha256(Path(path).read_bytes()).hexdigest()
    except OSError:  # a header that is gone: the program is no longer what it was
        return ""


def _made(steps: Sequence[CompileStep], link: Sequence[str], toolkit: Toolkit, main: bool) -> Made:
    with tempfile.TemporaryDirectory(prefix="weft-") as name:
        folder = Path(name)
        objects = [folder / f"{i}.o" for i in range(len(steps))]

        listings: list[Path] = []

        def compile(step: CompileStep, out: Path) -> None:
            output, listed = compile_in_steps(step.command, step.path, out, toolkit)
            listings.extend(listed)
            if output:
                print(output, file=sys.stderr)

        work = [functools.partial(compile, *each) for each in zip(steps, objects, strict=True)]
        # Every program needs the core: in the first run it is compiled at the same time.
        parallel([*work, functools.partial(runtime_library, toolkit, [library_parts.CORE])])
        code, parts = linked(objects, link, toolkit, main=main)
        files = {file for listing in listings for file in _listed(listing, toolkit)}
        return Made(code, parts, tuple(sorted(files | {step.path for step in steps})))


def linked(
    objects: Sequence[Path], flags: Sequence[str], toolkit: Toolkit, *, main: bool
) -> tuple[bytes, tuple[str, ...]]:
    """Link objects to a program or a library; also return the parts that it calls."""
    called = stubs.Called.by(objects)
    parts = library_parts.needed(called.undefined)
    with tempfile.TemporaryDirectory(prefix="weft-") as name:
        folder = Path(name)
        served = [folder / file_name(part) for part in parts]
        for path, data in zip(served, runtime_library(toolkit, parts), strict=True):
            path.write_bytes(data)
        out, link = folder / "out.so", [*SHARED, *flags, *map(str, objects)]
        if text := stubs.source(called, served, () if main else parts):
            (folder / "stubs.cpp").write_text(text, encoding="utf-8")
            link.append(str(folder / "stubs.cpp"))
        # -z defs: an undefined symbol of a program is an error now, not at the first call. A
        # library loads the runtime library itself (start.cpp).
        if main:
            link += [*map(str, served), "-Xlinker", "-z,defs"]
            link += [f"-Xlinker=--wrap={name}" for name in library_parts.wrapped(called.undefined)]
        else:
            link.append(str(_START))
        link += _as_needed(toolkit_libraries())
        toolkit.run([*link, "-o", str(out)], what="link the program")
        return out.read_bytes(), parts


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
    words = listing.read_text(encoding="utf-8").replace("\\\n", " ").replace("\\ ", "\0").split()
    # The target is "0.o :" of nvcc, and "0.o:" of g++.
    names = (word.replace("\0", " ") for word in words[1:] if word != ":")
    files = (os.path.abspath(name) for name in names)
    return [file for file in files if not _of_toolkit(file, toolkit)]


def _of_toolkit(file: str, toolkit: Toolkit) -> bool:
    root = toolkit.root
    roots = (root if root not in ("/usr", "/usr/local") else "/usr/local/cuda", str(LIBRARIES))
    return file.startswith(roots) or "/nvidia/cu13/" in file
