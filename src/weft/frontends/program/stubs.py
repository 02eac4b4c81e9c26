"""Generates what a program or a library is linked with besides its own objects.

Functions that weft does not support become stubs: each prints its name and fails, so that a program
runs up to such a call, and beyond if it handles the error. A library also gets a forwarding
function for each function that weft supports: the runtime library is not loaded before it.
"""

from __future__ import annotations

import platform
import re
import subprocess
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from weft.errors import CompileError

_LIBRARIES = (
    (r"cublas", 15),
    (r"cufft", 16),
    (r"curand", 999),
    (r"cusparse", 10),
    (r"cusolver", 9),
    (r"cudnn", 3000),
    (r"nccl[A-Z]", 5),
    (r"npp[A-Z\w]*_", -9999),
    (r"nvml", 3),
    (r"nvJitLink", 6),
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


_FORWARD = {
    "x86_64": "jmp *{at}(%rip)",
    "aarch64": r"adrp x16, {at}\n ldr x16, [x16, :lo12:{at}]\n br x16",
}
"""The jump through the table of addresses, by machine."""
_FORWARDING = """\
extern "C" {{
__attribute__((visibility("hidden"))) void *weft_targets[{count}];
extern __attribute__((visibility("hidden"))) const char *const weft_names[];
const char *const weft_names[] = {{{names}, 0}};
extern __attribute__((visibility("hidden"))) const char weft_parts[];
const char weft_parts[] = "{parts}";
}}
"""


@dataclass(frozen=True)
class Called:
    """The symbols that objects define, and those that they call and do not define."""

    defined: set[str]
    undefined: set[str]

    @classmethod
    def by(cls, objects: Sequence[Path]) -> Called:
        defined = symbols(["--defined-only", *map(str, objects)])
        return cls(defined, symbols(["--undefined-only", *map(str, objects)]) - defined)


def weak(names: Iterable[str]) -> str:
    """C++ of stubs that other definitions replace. They have a section of their own."""
    attributes = '__attribute__((weak, section("weft_stubs"), visibility("default")))'
    texts = filter(None, map(_definition, sorted(names)))
    return _HEAD + "".join(text.replace("int", f"{attributes} int", 1) for text in texts)


def calls_cuda(called: Called) -> bool:
    """True if objects call a function of CUDA or of one of its libraries."""
    return any(_definition(name) for name in called.undefined)


def source(called: Called, library: Sequence[Path], parts: Sequence[str]) -> str:
    """C++ for the CUDA functions that objects call and do not define; "" where there are none.

    library  the parts of the runtime library that serve them
    parts    their names, for a library that loads them itself; none for a program
    """
    if not parts and "main" not in called.defined:
        raise CompileError(
            "the program has no main",
            next="name its other files with --with; single kernels are run by weft.cuda in Python",
        )
    served = symbols(["--dynamic", "--defined-only", *map(str, library)])
    missing = sorted(called.undefined - served)
    definitions = "".join(filter(None, map(_definition, missing)))
    text = _HEAD + definitions
    if not parts:
        return text if definitions else ""
    forwarded = [name for name in sorted(served) if name in called.undefined or name in text]
    return text + _forwarding(forwarded or ["weft_unserved"], parts)


def _forwarding(names: Sequence[str], parts: Sequence[str]) -> str:
    """Functions that jump to addresses which `start.cpp` fills in."""
    code = _FORWARD.get(platform.machine())
    if code is None:
        raise CompileError(
            "libraries can be built on x86_64 and aarch64 only", got=platform.machine()
        )
    quoted = ", ".join(f'"{name}"' for name in names)
    text = _FORWARDING.format(count=len(names), names=quoted, parts=" ".join(parts))
    for i, name in enumerate(names):
        jump = code.format(at=f"weft_targets+{8 * i}")
        head = f".text\\n .globl {name}\\n .hidden {name}\\n .type {name}, %function\\n"
        text += f'asm("{head}{name}: {jump}\\n");\n'
    return text


def _definition(name: str) -> str:
    if name.startswith(_LINKED):
        return _REGISTER.format(name=name)
    for begins, status in _LIBRARIES:
        if re.match(begins, name):
            return _STUB.format(name=name, status=status)
    return ""


def symbols(arguments: Iterable[str]) -> set[str]:
    """The symbols that `nm` lists."""
    done = subprocess.run(["nm", *arguments], capture_output=True, encoding="utf-8")
    if done.returncode:
        raise CompileError("nm could not read what was compiled", got=done.stderr.strip())
    rows = (line.split() for line in done.stdout.splitlines())
    return {row[-1] for row in rows if len(row) >= 2}
