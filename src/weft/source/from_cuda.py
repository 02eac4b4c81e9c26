"""CUDA C++ becomes PTX, through NVRTC and a cache on disk."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from weft import cache
from weft.errors import CompileError
from weft.source import diagnose, headers, nvrtc, scan, signature
from weft.values import Parameter, Ptx

Define = str | int | float | bool | None

_FORMAT = 3  # raise it when what is stored, or how it is made, changes
_BUILT_IN = "__nv_nvrtc_builtin_header.h"
_PATH = re.compile(r"[^\n]+\.(cu|cuh|cpp|cc|cxx|c|h|hpp)")


class _Probed(NamedTuple):
    """PTX, name expression -> entry, and `extern "C"` kernel -> its probe's mangled name."""

    ptx: str
    asked: dict[str, str]
    probes: dict[str, str]


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
) -> Ptx:
    """Compile CUDA C++ to PTX with line information.

    `source_or_path` is a `pathlib.Path`, a string that ends in `.cu`, `.cuh`, `.cpp` and the like,
    or the source itself, which errors then call `name`. Templates are instantiated by
    `name_expressions`, e.g. `saxpy<float>`. `options` go to NVRTC as they are.
    """
    main = _main(source_or_path, name)
    folders = [str(folder) for folder in include]
    files, complete = scan.files(main, folders)
    flags = [*_flags(arch, std, defines or {}, fast_math), *options]
    key = cache.key(
        _FORMAT,
        headers.wheels().get(headers.NVRTC) or nvrtc.version(),
        headers.wheels(),
        headers.folders(),
        folders,
        flags,
        sorted(name_expressions),
        [(file.name, file.text) for file in files],
    )
    stored = cache.get("ptx", key) if complete else None
    if stored is not None:
        return _unpack(stored)
    flags += [f"-I{folder}" for folder in (*folders, *headers.folders())]
    flags.append(f"--pre-include={headers.CONSTANTS}")
    ptx = _compile(files, flags, list(dict.fromkeys(name_expressions)), _architecture(arch))
    if complete:
        cache.put("ptx", key, _pack(ptx))
    return ptx


def _main(source_or_path: str | Path, name: str) -> scan.File:
    """The translation unit, with the name that errors show."""
    if isinstance(source_or_path, str) and not _PATH.fullmatch(source_or_path):
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


def _flags(arch: str, std: str, defines: Mapping[str, Define], fast_math: bool) -> list[str]:
    flags = [f"--gpu-architecture={_architecture(arch)}", f"--std={std}", "-lineinfo"]
    flags += ["--use_fast_math"] if fast_math else []
    return flags + [f"-D{_define(name, value)}" for name, value in defines.items()]


def _architecture(arch: str) -> str:
    number = re.fullmatch(r"(?:sm_|compute_)(\d+[af]?)", arch)
    if number is None:
        raise CompileError(
            "not a GPU architecture", got=repr(arch), allowed="sm_80 or compute_80, sm_90a, ..."
        )
    return f"compute_{number[1]}"


def _define(name: str, value: Define) -> str:
    if value is None:
        return name
    return f"{name}={int(value) if isinstance(value, bool) else value}"


def _compile(
    files: Sequence[scan.File], flags: Sequence[str], expressions: Sequence[str], arch: str
) -> Ptx:
    main = files[0]
    written = [kernel for file in files for kernel in scan.kernels(file.text)]
    guessed = list(dict.fromkeys(kernel.name for kernel in written if kernel.extern_c))
    first = _probed(main, flags, expressions, guessed)
    # macros and conditionals hide kernels from the scan, or show it some that are not there
    names = [n for n in signature.entry_names(first.ptx) if not n.startswith("_Z")]
    complete = first.probes.keys() >= set(names)
    result = first if complete else _probed(main, flags, expressions, names)
    text = _with_known_names(result.ptx, files)
    return Ptx(
        text=text,
        arch=arch,
        origin=main.name,
        entries=signature.spellings(text) | result.asked,
        signatures=signature.signatures(text, written, result.probes),
        sources={file.name: file.text for file in files},
    )


def _probed(
    main: scan.File, flags: Sequence[str], expressions: Sequence[str], kernels: Sequence[str]
) -> _Probed:
    """Compile with a signature probe for each kernel, or without any if that is refused."""
    probes = {kernel: signature.probe(kernel) for kernel in kernels}
    source = main.text + (signature.PROBE_SOURCE if probes else "")
    try:
        result = nvrtc.compile(source, main.name, flags, [*expressions, *probes.values()])
    except nvrtc.Refused as refusal:
        if not probes:
            raise diagnose.error(str(refusal), main.name) from None
        return _probed(main, flags, expressions, ())
    mangled = {kernel: result.lowered[probe] for kernel, probe in probes.items()}
    asked = {expression: result.lowered[expression] for expression in expressions}
    return _Probed(signature.without_probes(result.ptx), asked, mangled)


def _with_known_names(ptx: str, files: Sequence[scan.File]) -> str:
    """NVRTC makes every `.file` an absolute path, even its own header, which is no file at all.

    Say the user's own name for the user's files.
    """
    names = [*(file.name for file in files), _BUILT_IN]
    known = {os.path.abspath(name): name for name in names}

    def rename(match: re.Match[str]) -> str:
        return f'{match[1]}"{known.get(match[2], match[2])}"'

    return re.sub(r'^(\s*\.file\s+\d+\s+)"([^"\n]*)"', rename, ptx, flags=re.MULTILINE)


def _pack(ptx: Ptx) -> bytes:
    typed = {e: [(p.name, p.ctype) for p in params] for e, params in ptx.signatures.items()}
    fields = {**vars(ptx), "signatures": typed}
    return json.dumps(fields).encode("ascii")


def _unpack(data: bytes) -> Ptx:
    fields = json.loads(data)
    typed = {e: tuple(Parameter(*p) for p in params) for e, params in fields["signatures"].items()}
    return Ptx(**{**fields, "signatures": typed})
