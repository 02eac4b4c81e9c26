"""Runs programs on the simulator and on the host, and compares what they leave bit for bit.

Compilers are started once for many programs: a module has several kernels, and a kernel is a pack
of programs, one for each block of its grid.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from weft.device.sim.run.draft import drafts
from weft.errors import Error
from weft.fuzz.inputs import inputs, scalars
from weft.fuzz.layout import column
from weft.fuzz.nodes import FLOATS, Program
from weft.fuzz.render import device_code, host_code, outputs
from weft.kernels import Kernel, cuda
from weft.measure.profile.entry import profile

HERE = Path(__file__).parent
GXX = (
    "g++", "-std=c++17", "-O1", "-ffp-contract=off", "-frounding-math", "-fwrapv",
    "-fno-strict-aliasing", "-fno-builtin-fma", "-fno-builtin-fmaf", "-w", "-shared", "-fPIC",
    f"-I{HERE}",
)  # fmt: skip
"""Without -frounding-math g++ 12 makes -x of 0.0 - x where x cannot be -0.0: -0.0 where x is 0. On
Arm it makes one instruction of -fma(a, b, c), whose zeros have another sign."""
NVRTC = ("-w", "--fmad=false", "--prec-div=true", "--prec-sqrt=true", "--ftz=false")
_UNTOUCHED = 0xA5A5A5A5A5A5A5A5


@dataclass(frozen=True)
class Pack:
    """Programs of one block shape that are one kernel.

    draft  whether LLVM is to compile quickly, as `weft.device.sim.run.draft` does
    tool   "" for a plain launch, "sanitizer" or "profile": under a tool the bits stay the same
    """

    name: str
    programs: tuple[Program, ...]
    draft: bool = True
    tool: str = ""

    def alone(self, program: Program) -> Pack:
        return replace(self, programs=(program,))


@dataclass(frozen=True)
class Finding:
    """A program that went wrong: `kind` is "bits", "error" (raised by a launch) or "compiler"."""

    pack: Pack
    program: Program
    kind: str
    text: str


def execute(packs: Sequence[Pack]) -> list[Finding]:
    """Run all packs on both sides."""
    with _folder() as folder:
        try:
            module = cuda(module_text(packs), options=NVRTC, include=[HERE])
            host = _host_module(packs, folder)
        except (Error, subprocess.CalledProcessError) as error:
            if len(packs) == 1 and len(packs[0].programs) == 1:
                return [Finding(packs[0], packs[0].programs[0], "compiler", _message(error))]
            return _one_by_one(packs)
        found = []
        for i, pack in enumerate(packs):
            found += _compare(pack, module.kernel(f"pack{i}"), getattr(host, f"pack{i}"))
        return found


def _one_by_one(packs: Sequence[Pack]) -> list[Finding]:
    alone = (pack.alone(program) for pack in packs for program in pack.programs)
    return [finding for pack in alone for finding in execute([pack])]


def _compare(pack: Pack, kernel: Kernel, host: Callable[..., None]) -> list[Finding]:
    given = np.concatenate([inputs(program) for program in pack.programs])
    sizes = [program.threads * len(outputs(program)) for program in pack.programs]
    wanted, got = (np.full(sum(sizes), _UNTOUCHED, np.uint64) for _ in range(2))
    n, w = scalars(pack.name)
    host(given.ctypes.data, wanted.ctypes.data, n, w)
    try:
        _launch(pack, kernel, given, got, n, w)
    except Error as error:
        if len(pack.programs) == 1:
            return [Finding(pack, pack.programs[0], "error", _message(error))]
        return _one_by_one([pack])
    found = []
    ends = np.cumsum(sizes)
    for program, end, size in zip(pack.programs, ends, sizes, strict=True):
        if said := _difference(program, got[end - size : end], wanted[end - size : end]):
            found.append(Finding(pack, program, "bits", f"{said}\nn = {n}, w = {w}"))
    return found


def _launch(pack: Pack, kernel: Kernel, given: np.ndarray, got: np.ndarray, n: int, w: int) -> None:
    launch = kernel[len(pack.programs), pack.programs[0].shape]
    with drafts() if pack.draft else contextlib.nullcontext():
        if pack.tool == "profile":
            profile(launch, given, got, n, w)
        else:
            launch(given, got, n, w, sanitize=pack.tool == "sanitizer")


def _difference(program: Program, got: np.ndarray, wanted: np.ndarray) -> str:
    """The first difference, and its inputs; empty if there is none."""
    left = outputs(program)
    for i, (name, kind) in enumerate(left):
        a, b = (column(program, words, kind, i, len(left)) for words in (got, wanted))
        wrong = _bits(a) != _bits(b)
        if kind in FLOATS:
            wrong &= ~(np.isnan(a) & np.isnan(b))
        if wrong.any():
            thread, given, count = int(np.argmax(wrong)), inputs(program), len(program.inputs)
            columns = [
                column(program, given, d.type, i, count) for i, d in enumerate(program.inputs)
            ]
            values = [f"simulator {_value(a, thread)}", f"host {_value(b, thread)}"]
            pairs = zip(program.inputs, columns, strict=True)
            values += [f"{d.name} = {_value(x, thread)}" for d, x in pairs]
            return (
                f"{name} differs in {int(wrong.sum())} of {program.threads} threads, "
                f"first in thread {thread}:\n{', '.join(values)}"
            )
    return ""


def _bits(values: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(values).view(f"u{values.itemsize}")


def _value(values: np.ndarray, thread: int) -> str:
    return f"{values[thread]} ({int(_bits(values)[thread]):#x})"


def module_text(packs: Sequence[Pack], *, host: bool = False) -> str:
    """The CUDA C++ of these packs, `pack0` and on, or the C++ of the host."""
    code = host_code if host else device_code
    parts = [f'#include "{"host" if host else "device"}.h"\n']
    for i, pack in enumerate(packs):
        calls = []
        for j, (index, into) in enumerate(_places(pack)):
            parts.append(code(pack.programs[j], f"{i}_{j}"))
            calls.append(f"p{i}_{j}::program(in + {index}, out + {into}, n, w);")
        body = " ".join(calls)
        if not host and len(calls) > 1:
            cases = (f"case {j}: {call} break;" for j, call in enumerate(calls))
            body = f"switch (blockIdx.x) {{ {' '.join(cases)} }}"
        kind = "void" if host else "__global__ void"
        head = f'extern "C" {kind} pack{i}(const u64* in, u64* out, i32 n, u64 w)'
        parts.append(f"{head} {{ {body} }}\n")
    return "".join(parts)


def _host_module(packs: Sequence[Pack], folder: Path) -> ctypes.CDLL:
    source, library = folder / "host.cpp", folder / "host.so"
    source.write_text(module_text(packs, host=True), encoding="utf-8")
    subprocess.run([*GXX, "-o", library, source], check=True, capture_output=True, encoding="utf-8")
    host = ctypes.CDLL(str(library))
    for i in range(len(packs)):
        getattr(host, f"pack{i}").argtypes = [
            ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int32, ctypes.c_uint64,
        ]  # fmt: skip
    return host


def _places(pack: Pack) -> Iterator[tuple[int, int]]:
    """The offsets of the inputs and the outputs of each program."""
    index = into = 0
    for program in pack.programs:
        yield index, into
        index += program.threads * len(program.inputs)
        into += program.threads * len(outputs(program))


def _message(error: Exception) -> str:
    said = error.stderr if isinstance(error, subprocess.CalledProcessError) else str(error)
    return f"{type(error).__name__}: {said[:2000]}"


@contextlib.contextmanager
def _folder() -> Iterator[Path]:
    """A folder for this batch. It is the cache as well: a random program is compiled only once."""
    before = os.environ.get("WEFT_CACHE_DIR")
    with tempfile.TemporaryDirectory(prefix="weft-differential-") as folder:
        os.environ["WEFT_CACHE_DIR"] = f"{folder}/cache"
        try:
            yield Path(folder)
        finally:
            if before is None:
                del os.environ["WEFT_CACHE_DIR"]
            else:
                os.environ["WEFT_CACHE_DIR"] = before
