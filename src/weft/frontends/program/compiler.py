"""`weft nvcc`: takes nvcc's command line, and builds for the simulated GPU.

Objects are ordinary object files whose device code is PTX. A program is a file that starts itself
under weft (executable.py). A library with `-shared` is loaded by ctypes or as an extension module.
"""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from weft.device.selection import select
from weft.errors import Error
from weft.frontends.program import executable
from weft.frontends.program import flags as user_flags
from weft.frontends.program.build import LINES, device_options, linked
from weft.source import toolkit

_PASSED_ON = (
    "-E", "--preprocess", "-M", "-MM", "--generate-dependencies", "-ptx", "--ptx", "-cubin",
    "--cubin", "-lib", "--lib", "--version", "-V", "--help", "-h",
    "--list-gpu-arch", "--list-gpu-code", "--dryrun", "-dryrun", "-cuda", "--cuda",
)  # fmt: skip
"""With one of these nvcc makes no program: it runs as it is."""
_COMPILE = ("-c", "--compile", "-dc", "--device-c", "-dw", "--device-w")
_FATBIN = ("-fatbin", "--fatbin")
"""A fat binary is compiled as an object is: its device code is PTX that weft can load."""
_DEVICE_LINK = ("-dlink", "--device-link")
_VALUED = (
    "-o", "--output-file", "-I", "--include-path", "-D", "--define-macro", "-U", "-L",
    "--library-path", "-l", "--library", "-arch", "--gpu-architecture", "-gencode",
    "--generate-code", "-code", "--gpu-code", "-Xcompiler", "--compiler-options", "-Xlinker",
    "--linker-options", "-Xptxas", "--ptxas-options", "-Xnvlink", "-Xcudafe", "-Xarchive",
    "-ccbin", "--compiler-bindir", "-include", "-isystem", "--system-include", "-MF", "-MT", "-MQ",
    "-maxrregcount", "--maxrregcount", "-std", "--std", "-x", "--x", "-cudart", "--cudart", "-O",
    "-odir", "--output-directory", "-t", "--threads", "-diag-suppress", "--diag-suppress", "-m",
)  # fmt: skip
"""Flags whose value may be the next word."""
_SOURCES = (".cu", ".cpp", ".cc", ".cxx", ".c", ".c++")


@dataclass
class _Line:
    """A command line of nvcc: its files, its output, its other words."""

    sources: list[str] = field(default_factory=list)
    objects: list[str] = field(default_factory=list)
    flags: list[str] = field(default_factory=list)
    output: str | None = None
    mode: str = ""


def compile(arguments: Sequence[str]) -> int:
    """Runs nvcc's command line; returns an exit code."""
    tools = toolkit.find()
    if not arguments or any(word in _PASSED_ON for word in arguments):
        return subprocess.run([tools.nvcc, *arguments]).returncode
    line = _read(arguments)
    options = device_options(select("sim").simulated.compile_for)
    flags = user_flags.wanted(line.flags)
    if line.mode in _DEVICE_LINK:  # weft links device code when it is loaded: nothing to do now
        empty = ["-x", "c++", "-c", "/dev/null", "-o", line.output or "a_dlink.o"]
        tools.run(empty, what="make an empty object")
        return 0
    if line.mode in _COMPILE or line.mode in _FATBIN:
        relocatable = ["-rdc=true"] if line.mode in _COMPILE[2:4] else []
        named = ["-o", line.output] if line.output else []
        output = "-fatbin" if line.mode in _FATBIN else "-c"
        command = [tools.nvcc, *options, *LINES, *relocatable, *flags, output]
        return subprocess.run([*command, *line.sources, *named]).returncode
    if not line.sources and not line.objects:
        raise Error(
            "nvcc was given no file", got=" ".join(arguments), next="weft nvcc prog.cu -o prog"
        )
    _link(line, [tools.nvcc, *options, *LINES, *flags], flags, tools)
    return 0


def _link(
    line: _Line, command: Sequence[str], flags: Sequence[str], tools: toolkit.Toolkit
) -> None:
    """Compiles the sources and links them with the objects; writes the output."""
    with tempfile.TemporaryDirectory(prefix="weft-") as folder:
        objects = [Path(path) for path in line.objects]
        for i, source in enumerate(line.sources):
            out = Path(folder) / f"{i}.o"
            output = tools.call([*command, "-c", source, "-o", str(out)], what=f"compile {source}")
            if output:
                print(output)
            objects.append(out)
        main = line.mode != "-shared"
        data, parts = linked(objects, user_flags.for_linking(flags), tools, main=main)
    path = Path(line.output or "a.out")
    if main:
        sources = tuple(os.path.abspath(source) for source in line.sources)
        data = executable.wrapped(executable.Executable(data, parts, sources))
    path.write_bytes(data)
    path.chmod(0o755)


def _read(arguments: Sequence[str]) -> _Line:
    line, words = _Line(), iter(arguments)
    for word in words:
        if word in ("-o", "--output-file"):
            line.output = next(words, None)
        elif word in (*_COMPILE, *_FATBIN, *_DEVICE_LINK):
            line.mode = word
        elif word in ("-shared", "--shared"):
            line.mode = "-shared"
        elif word in _VALUED:
            line.flags += [word, next(words, "")]
        elif word.startswith("-"):
            line.flags.append(word)
        elif word.endswith(_SOURCES):
            line.sources.append(word)
        elif word.endswith((".a", ".so")) or ".so." in word:
            line.flags += ["-Xlinker", word]
        else:
            line.objects.append(word)
    return line
