"""Generates stubs for unsupported library functions: each prints its name and fails.

A program is linked with these stubs, so that it runs up to such a call, and beyond if it handles
the error.
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterable, Sequence
from pathlib import Path

from weft.errors import CompileError

_LIBRARIES = (
    (r"cublas", 15),
    (r"cufft", 16),
    (r"curand", 999),
    (r"cusparse", 10),
    (r"cusolver", 9),
    (r"cudnn", 3000),
    (r"nvrtc", 11),
    (r"nccl[A-Z]", 5),
    (r"npp[A-Z\w]*_", -9999),
    (r"nvml", 3),
    (r"nvjpeg", 10),
    (r"(__)?cuda[A-Z\w]", 801),
    (r"cu[A-Z]", 801),
)
"""Name prefix of a library, and its status code for unsupported functions."""

_LINKED = "__cudaRegisterLinkedBinary"
_HEAD = """\
extern "C" int weft_unserved(const char *name, int status);
extern "C" void weft_register_linked(void (*registers)(void **), void *wrapper);
"""
_STUB = 'extern "C" int {name}() {{ return weft_unserved("{name}", {status}); }}\n'
_REGISTER = """\
extern "C" void {name}(void (*registers)(void **), void *wrapper, void *, void (*)(void *)) {{
    weft_register_linked(registers, wrapper);
}}
"""


def source(objects: Sequence[Path], library: Path) -> str:
    """C++ stubs for CUDA functions that neither the objects nor the library define."""
    has = _symbols(["--defined-only", *map(str, objects)])
    if "main" not in has:
        raise CompileError(
            "the program has no main",
            next="name its other files with --with; single kernels are run by weft.cuda in Python",
        )
    has |= _symbols(["--dynamic", "--defined-only", str(library)])
    needed = _symbols(["--undefined-only", *map(str, objects)]) - has
    return _HEAD + "".join(filter(None, map(_definition, sorted(needed))))


def _definition(name: str) -> str:
    if name.startswith(_LINKED):
        return _REGISTER.format(name=name)
    for begins, status in _LIBRARIES:
        if re.match(begins, name):
            return _STUB.format(name=name, status=status)
    return ""


def _symbols(arguments: Iterable[str]) -> set[str]:
    done = subprocess.run(["nm", *arguments], capture_output=True, text=True)
    if done.returncode:
        raise CompileError("nm could not read what was compiled", got=done.stderr.strip())
    rows = (line.split() for line in done.stdout.splitlines())
    return {row[-1] for row in rows if len(row) >= 2}
