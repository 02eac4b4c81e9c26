"""Reads command lines: nvcc's own, and those of a host compiler that links."""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from weft.errors import Error
from weft.frontends.program import flags as user_flags

COMPILE = ("-c", "--compile", "-dc", "--device-c", "-dw", "--device-w")
FATBIN = ("-fatbin", "--fatbin")
"""A fat binary is compiled as an object is: its device code is PTX that weft can load."""
DEVICE_LINK = ("-dlink", "--device-link")
SHARED = "-shared"
_VALUED = (
    "-o", "--output-file", "-I", "--include-path", "-D", "--define-macro", "-U",
    "--undefine-macro", "-L", "--library-path", "-l", "--library", "-arch", "--gpu-architecture",
    "-gencode", "--generate-code", "-code", "--gpu-code", "-Xcompiler", "--compiler-options",
    "-Xlinker", "--linker-options", "-Xptxas", "--ptxas-options", "-Xnvlink", "--nvlink-options",
    "-Xcudafe", "-Xarchive", "--archive-options", "-ccbin", "--compiler-bindir", "-include",
    "--pre-include", "-isystem", "--system-include", "-MF", "--dependency-output", "-MT",
    "--dependency-target-name", "-MQ", "-maxrregcount", "--maxrregcount", "-std", "--std", "-x",
    "--x", "-cudart", "--cudart", "-cudadevrt", "--cudadevrt", "-O", "--optimize", "-odir",
    "--output-directory", "-t", "--threads", "-diag-suppress", "--diag-suppress", "-diag-error",
    "--diag-error", "-diag-warn", "--diag-warn", "-m", "--machine", "-keep-dir", "--keep-dir",
    "-Werror", "--Werror", "-default-stream", "--default-stream", "-rdc",
    "--relocatable-device-code", "-ftz", "--ftz", "-prec-div", "--prec-div", "-prec-sqrt",
    "--prec-sqrt", "-fmad", "--fmad", "-split-compile", "--split-compile", "-tempdir", "--tempdir",
)  # fmt: skip
"""Flags whose value may be the next word."""
_MORE = ("--options-file", "-optf")
_SOURCES = (".cu", ".cpp", ".cc", ".cxx", ".c", ".c++")
_HOST_VALUED = ("-o", "-L", "-l", "-I", "-isystem", "-x")


@dataclass
class CommandLine:
    """A command line: its files, its output, its other words."""

    sources: list[str] = field(default_factory=list)
    objects: list[str] = field(default_factory=list)
    flags: list[str] = field(default_factory=list)
    output: str | None = None
    mode: str = ""


def read(arguments: Sequence[str]) -> CommandLine:
    """Read nvcc's command line."""
    line, words = CommandLine(), _expanded(arguments)
    for word in words:
        if word in ("-o", "--output-file"):
            line.output = next(words, None)
        elif word in (*COMPILE, *FATBIN, *DEVICE_LINK):
            line.mode = word
        elif word in ("-shared", "--shared"):
            line.mode = line.mode or SHARED  # a library may be linked in two steps
        elif word in _VALUED:
            line.flags += [word, next(words, "")]
        elif word.startswith("-"):
            line.flags.append(word)
        elif word.endswith(_SOURCES):
            line.sources.append(word)
        elif user_flags.is_served(word):
            continue
        elif word.endswith(".so") or ".so." in word:
            line.flags += ["-Xlinker", word]
        else:
            line.objects.append(word)
    line.objects += _archives(line.flags)
    return line


def of_host_linker(arguments: Sequence[str]) -> list[str]:
    """Translate a command line of g++ that links to one of nvcc."""
    out: list[str] = []
    words = _expanded(arguments)
    for word in words:
        if word.startswith("-Wl,"):
            out += ["-Xlinker", word.removeprefix("-Wl,")]
        elif word == "-Xlinker" or word in _HOST_VALUED:
            out += [word, next(words, "")]
        elif not word.startswith("-") or word[:2] in ("-l", "-L") or word == SHARED:
            out.append(word)
        elif word != "-v":
            out += ["-Xcompiler", word]
    return out


def _expanded(arguments: Sequence[str]) -> Iterator[str]:
    """The words, with those of the files that they name."""
    words = iter(arguments)
    for word in words:
        flag, _, value = word.partition("=")
        if flag in _MORE:
            for path in (value or next(words, "")).split(","):
                yield from _expanded(_words(path))
        elif word.startswith("@") and os.path.isfile(word[1:]):
            yield from _expanded(_words(word[1:]))
        else:
            yield word


def _words(path: str) -> list[str]:
    try:
        return shlex.split(Path(path).read_text(encoding="utf-8"))
    except OSError as error:
        raise Error("a file of options cannot be read", where=path, got=str(error)) from None


def _archives(flags: list[str]) -> list[str]:
    """Take archives that `-l` and `-L` name out of the flags: they may call functions of CUDA."""
    folders, found = list(_values(flags, "-L")), []
    for name in list(_values(flags, "-l")):
        at = (os.path.join(folder, f"lib{name}") for folder in folders)
        path = next((p for p in at if os.path.isfile(f"{p}.a")), None)
        if path is None or os.path.exists(f"{path}.so") or user_flags.is_served(f"{path}.a"):
            continue
        if f"-l{name}" in flags:
            flags.remove(f"-l{name}")
            found.append(f"{path}.a")
    return found


def _values(flags: Sequence[str], letter: str) -> Iterator[str]:
    words = iter(flags)
    for word in words:
        if word == letter:
            yield next(words, "")
        elif word.startswith(letter):
            yield word.removeprefix(letter)
