"""A translation unit: its files, its flags, and the cache entry that they determine."""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from weft import cache
from weft.errors import CompileError, expect
from weft.records import dataclass
from weft.source import headers, nvrtc, scan

Define = str | int | float | bool | None

_FORMAT = 6  # increment when the stored data or its creation changes
_PATH = re.compile(r"[^\n]+\.(cu|cuh|cpp|cc|cxx|c|h|hpp)")

_FILE_NAME = re.compile(r"[\w./\\~-]+\.\w{1,6}")
"""One word with a suffix: a file name, not CUDA C++."""


@dataclass(frozen=True)
class SourceUnit:
    """A translation unit and everything that determines its output."""

    files: list[scan.File]
    complete: bool
    folders: list[str]
    flags: list[str]
    expressions: list[str]
    on_disk: bool

    @property
    def has_host_code(self) -> bool:
        """True for a file of which NVRTC can compile only a part. Source text is for kernels."""
        from weft.source import from_nvcc  # here: NVRTC compiles most sources

        return self.on_disk and any(from_nvcc.has_host_code(file.text) for file in self.files)

    @functools.cached_property
    def key(self) -> str:
        # Everything that NVRTC's output depends on, including the versions of headers.
        return cache.key(
            _FORMAT,
            headers.wheels().get(headers.NVRTC) or nvrtc.version(),
            headers.wheels(),
            headers.folders(),
            self.folders,
            self.flags,
            sorted(self.expressions),
            [(file.name, file.text) for file in self.files],
        )

    @property
    def options(self) -> list[str]:
        folders = [f"-I{folder}" for folder in (*self.folders, *headers.folders())]
        constants = f"--pre-include={headers.CONSTANTS}"
        return [nvrtc.SIGNED_CHARS, *self.flags, *folders, constants]

    def compile(self, source: str, expressions: Sequence[str]) -> nvrtc.NvrtcOutput:
        """Compile the main file with `source` for its text."""
        name, options = self.files[0].name, self.options
        if not self.complete:  # a header may have changed meanwhile
            return nvrtc.compile(source, name, options, expressions)
        named = [self.files[0].text, *self.flags, *self.expressions]
        made = nvrtc.compile_minimal(source, name, options, expressions, named)
        if made is None:
            from weft.source import precompiled

            made = precompiled.compile(source, name, options, expressions, self.files[1:])
        return made

    def stored(self, kind: str) -> bytes | None:
        """The cached output of the unit; None if not all of its files are known."""
        return cache.get(kind, self.key) if self.complete else None

    def store(self, kind: str, data: bytes) -> None:
        if self.complete:
            cache.put(kind, self.key, data)


def make_unit(
    source_or_path: str | Path,
    name: str,
    include: Sequence[str | Path],
    flags: list[str],
    expressions: Sequence[str],
) -> SourceUnit:
    folders = [str(folder) for folder in include]
    main = _main(source_or_path, name)
    _must_be_text(main, [*folders, *flags, *expressions])
    files, complete = scan.files(main, [*folders, headers.DEVICE_LIBRARY])
    on_disk = isinstance(source_or_path, Path) or main.text is not source_or_path
    return SourceUnit(files, complete, folders, flags, list(dict.fromkeys(expressions)), on_disk)


def _main(source_or_path: str | Path, name: str) -> scan.File:
    """The main file, with the name for error messages."""
    expect("a source", source_or_path, str, Path, allowed="CUDA C++ as a string, or a path")
    if isinstance(source_or_path, str) and not _PATH.fullmatch(source_or_path):
        if _FILE_NAME.fullmatch(source_or_path):
            raise CompileError(
                "this is the name of a file, but not of CUDA C++",
                got=source_or_path,
                allowed="a name that ends in .cu, .cuh, .cpp, .h and the like, or the source",
                next="pathlib.Path(...) is a file, whatever its name",
            )
        main = scan.File(name, source_or_path)
    else:
        try:
            main = scan.read(str(source_or_path))
        except OSError as error:
            raise CompileError(
                "cannot read the source file",
                where=str(source_or_path),
                got=error.strerror or str(error),
                next="give a path that exists, or the source itself (several lines)",
            ) from error
    if "\0" in main.text:
        raise CompileError("the source holds a NUL character", where=main.name)
    return main


def _must_be_text(main: scan.File, others: Sequence[str]) -> None:
    """Raise CompileError for a lone surrogate, which cannot be encoded for NVRTC."""
    for text in (main.text, main.name, *others):
        try:
            text.encode("utf-8", "surrogateescape")
        except UnicodeEncodeError as error:
            line = text.count("\n", 0, error.start) + 1
            raise CompileError(
                "half of a surrogate pair is not a character",
                where=f"{ascii(main.name)[1:-1]}:{line}" if text is main.text else "",
                got=f"{text[error.start]!a} in {text.splitlines()[line - 1][:60]!a}",
                next="write the whole character, or leave it out",
            ) from None


def flags_of(arch: str, std: str, defines: Mapping[str, Define], fast_math: bool) -> list[str]:
    flags = [f"--gpu-architecture={arch}", f"--std={std}", "-lineinfo"]
    flags += ["--use_fast_math"] if fast_math else []
    return flags + [f"-D{_define(name, value)}" for name, value in defines.items()]


def _define(name: str, value: Define) -> str:
    if value is None:
        return name
    return f"{name}={int(value) if isinstance(value, bool) else value}"


def architecture(arch: str, kind: str) -> str:
    expect("arch", arch, str, allowed="a string: sm_80 or compute_80, sm_90a, ...")
    number = re.fullmatch(r"(?:sm_|compute_)(\d+[af]?)", arch)
    if number is None:
        raise CompileError(
            "not a GPU architecture", got=repr(arch), allowed="sm_80 or compute_80, sm_90a, ..."
        )
    return f"{kind}_{number[1]}"


def expect_texts(what: str, texts: object) -> None:
    """Raise unless this is a list of strings or paths; a single string would be iterated."""
    expect(what, texts, list, tuple, allowed="a list of strings")
    assert isinstance(texts, list | tuple)
    for text in texts:
        expect(f"a part of {what}", text, str, Path, allowed="a string")
