"""Compiles CUDA C++ to PTX and machine code, through NVRTC and a disk cache."""

from __future__ import annotations

import contextlib
import json
import os
import re
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from weft.errors import CompileError, expect
from weft.source import headers, nvrtc, remarks, scan, signature
from weft.source.unit import Define, SourceUnit, architecture, expect_texts, flags_of, make_unit
from weft.values import Parameter, Ptx

if TYPE_CHECKING:
    from weft.source import from_nvcc

_BUILT_IN = "__nv_nvrtc_builtin_header.h"


class _Probed(NamedTuple):
    """PTX, name expression -> entry, `extern "C"` kernel -> its probe's mangled name, the log."""

    ptx: str
    asked: dict[str, str]
    probes: dict[str, str]
    log: str


class Machine(NamedTuple):
    """Machine code, and the assembler's report of its kernels."""

    cubin: bytes
    report: str


def compile_cuda(
    source_or_path: str | Path,
    *,
    arch: str,
    std: str = "c++17",
    defines: Mapping[str, Define] | None = None,
    include: Sequence[str | Path] = (),
    fast_math: bool = False,
    options: Sequence[str] = (),
    name_expressions: Sequence[str] = (),
    name: str = "kernel.cu",
    meanwhile: Callable[[], None] | None = None,
) -> Ptx:
    """Compile CUDA C++ to PTX with line information.

    `source_or_path` is a `pathlib.Path`, a string that ends in `.cu`, `.cuh`, `.cpp` and the like,
    or the source itself, which errors then call `name`. Templates are instantiated by
    `name_expressions`, e.g. `saxpy<float>`. `options` go to NVRTC as they are. While NVRTC works,
    another thread calls `meanwhile`.
    """
    virtual = architecture(arch, "compute")
    for what, texts in (("options", options), ("include", include)):
        expect_texts(what, texts)
    expect("name", name, str, allowed="a string: what errors call the source")
    macros = {} if defines is None else defines
    expect("defines", macros, Mapping, allowed="a mapping of names to values")
    flags = [*flags_of(virtual, std, macros, fast_math), *options]
    unit = make_unit(source_or_path, name, include, flags, name_expressions)
    stored = unit.stored("ptx")
    if stored is not None:
        ptx = _unpack(stored)
    else:
        with _beside(meanwhile):
            ptx = _compile(unit, virtual)
        unit.store("ptx", _pack(ptx))
    remarks.show(ptx.warnings)
    return ptx


@contextlib.contextmanager
def _beside(work: Callable[[], None] | None) -> Iterator[None]:
    """Call `work` in another thread, and wait for it: a fork must not find it half done."""
    if work is None:
        yield
        return

    def attempt() -> None:
        with contextlib.suppress(Exception):  # what needs it tries again, and raises
            work()

    thread = threading.Thread(target=attempt, name="weft", daemon=True)
    thread.start()
    try:
        yield
    finally:
        thread.join()


def compile_machine(
    source_or_path: str | Path,
    *,
    arch: str,
    std: str = "c++17",
    defines: Mapping[str, Define] | None = None,
    include: Sequence[str | Path] = (),
    fast_math: bool = False,
    options: Sequence[str] = (),
    name_expressions: Sequence[str] = (),
    name: str = "kernel.cu",
) -> Machine:
    """Compile the same source to machine code; return it with the assembler's report."""
    real = architecture(arch, "sm")
    flags = [*flags_of(real, std, defines or {}, fast_math), "--ptxas-options=-v", *options]
    unit = make_unit(source_or_path, name, include, flags, name_expressions)
    report, cubin = unit.stored("report"), unit.stored("cubin")
    if report is not None and cubin is not None:
        return Machine(cubin, report.decode())
    main = unit.files[0]
    try:
        made = nvrtc.compile(main.text, main.name, unit.options, unit.expressions)
    except nvrtc.NvrtcRefused as refusal:
        if not unit.has_host_code:
            raise _rejected(main, str(refusal)) from None
        output = _output_of_nvcc(unit, "cubin")
        return Machine(output.data, output.log)
    if "ptxas info" not in made.log:  # NVRTC's own cache, used with a driver, has no report
        with contextlib.suppress(
            nvrtc.NvrtcRefused
        ):  # older releases have neither the option nor the cache
            again = [*unit.options, "--no-cache"]
            made = nvrtc.compile(main.text, main.name, again, unit.expressions)
    unit.store("report", made.log.encode("utf-8", "replace"))
    unit.store("cubin", made.cubin)
    return Machine(made.cubin, made.log)


def compile_lto(
    source_or_path: str | Path, name: str, *, arch: str, include: Sequence[str | Path] = ()
) -> bytes:
    """Compile CUDA C++ to LTO-IR, which nvJitLink links with other LTO-IR."""
    flags = [*flags_of(architecture(arch, "compute"), "c++17", {}, False), "-rdc=true", "-dlto"]
    unit = make_unit(source_or_path, name, include, flags, ())
    stored = unit.stored("lto")
    if stored is not None:
        return stored
    main = unit.files[0]
    try:
        code = nvrtc.compile(main.text, main.name, unit.options).lto
    except nvrtc.NvrtcRefused as refusal:
        raise _rejected(main, str(refusal)) from None
    unit.store("lto", code)
    return code


def _compile(unit: SourceUnit, arch: str) -> Ptx:
    try:
        return _by_nvrtc(unit, arch)
    except CompileError as error:
        if not unit.has_host_code:
            raise
        return _by_nvcc(unit, arch, error)


def _by_nvcc(unit: SourceUnit, arch: str, refused: CompileError) -> Ptx:
    """Compile a file that also has host code, which NVRTC has refused."""
    files, main = unit.files, unit.files[0]
    try:
        output = _output_of_nvcc(unit, "ptx")
    except CompileError as error:
        raise _rejected(main, error.log) if error.log else error from refused
    text = _with_known_names(output.data.decode(), files)
    written = [kernel for file in files for kernel in scan.kernels(file.text)]
    return Ptx(
        text=text,
        arch=arch,
        origin=main.name,
        entries=signature.spellings(text) | output.entries,
        signatures=signature.signatures(text, written),
        sources=_of_user(files),
        warnings=(),
    )


def _of_user(files: Sequence[scan.File]) -> dict[str, str]:
    """The texts to quote: what the device library does counts for the line that calls it."""
    return {f.name: f.text for f in files if not f.name.startswith(headers.DEVICE_LIBRARY)}


def _output_of_nvcc(unit: SourceUnit, kind: str) -> from_nvcc.NvccOutput:
    from weft.source import from_nvcc  # here: NVRTC compiles most sources

    return from_nvcc.compile(unit.files[0], unit.flags, unit.folders, unit.expressions, kind)


def _rejected(main: scan.File, log: str) -> CompileError:
    """The error that describes the defect of the source, from a compiler's log."""
    from weft.source import diagnose  # here: most sources are right

    return diagnose.error(log, main.name, main.text)


def _by_nvrtc(unit: SourceUnit, arch: str) -> Ptx:
    files, main = unit.files, unit.files[0]
    written = [kernel for file in files for kernel in scan.kernels(file.text)]
    guessed = list(dict.fromkeys(kernel.name for kernel in written if kernel.extern_c))
    first = _probed(unit, guessed)
    # Macros and conditionals can hide kernels from the scan, or show it kernels that do not exist.
    names = [n for n in signature.entry_names(first.ptx) if not n.startswith("_Z")]
    # A second compile is needed only if the scan missed a kernel.
    complete = first.probes.keys() >= set(names)
    result = first if complete else _probed(unit, names)
    text = _with_known_names(result.ptx, files)
    return Ptx(
        text=text,
        arch=arch,
        origin=main.name,
        entries=signature.spellings(text) | result.asked,
        signatures=signature.signatures(text, written, result.probes),
        sources=_of_user(files),
        warnings=remarks.read(result.log, files),
    )


def _probed(unit: SourceUnit, kernels: Sequence[str]) -> _Probed:
    """Compile with a signature probe per kernel, or without probes if NVRTC rejects them."""
    main, expressions = unit.files[0], unit.expressions
    probes = {kernel: signature.probe(kernel) for kernel in kernels}
    source = main.text + (signature.PROBE_SOURCE if probes else "")
    try:
        result = unit.compile(source, [*expressions, *probes.values()])
    except nvrtc.NvrtcRefused as refusal:
        # Retry without probes first: they may be what NVRTC rejects.
        if not probes:
            raise _rejected(main, str(refusal)) from None
        return _probed(unit, ())
    mangled = {kernel: result.lowered[probe] for kernel, probe in probes.items()}
    asked = {expression: result.lowered[expression] for expression in expressions}
    return _Probed(signature.without_probes(result.ptx), asked, mangled, result.log)


def _with_known_names(ptx: str, files: Sequence[scan.File]) -> str:
    """Restore the user's file names: NVRTC writes absolute paths, even for built-in headers.

    Error messages then show the names that the user passed.
    """
    names = [*(file.name for file in files), _BUILT_IN]
    names_by_path = {os.path.abspath(name): name for name in names}

    def rename(match: re.Match[str]) -> str:
        return f'{match[1]}"{names_by_path.get(match[2], match[2])}"'

    return re.sub(r'^(\s*\.file\s+\d+\s+)"([^"\n]*)"', rename, ptx, flags=re.MULTILINE)


def _pack(ptx: Ptx) -> bytes:
    typed = {e: [(p.name, p.ctype) for p in params] for e, params in ptx.signatures.items()}
    fields = {**vars(ptx), "signatures": typed}
    return json.dumps(fields).encode("ascii")


def _unpack(data: bytes) -> Ptx:
    fields = json.loads(data)
    typed = {e: tuple(Parameter(*p) for p in params) for e, params in fields["signatures"].items()}
    warnings = tuple(fields["warnings"])
    return Ptx(**{**fields, "signatures": typed, "warnings": warnings})
