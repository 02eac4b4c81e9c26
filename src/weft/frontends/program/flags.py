"""Filters the user's nvcc flags: those that `weft run` sets itself are removed."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence

from weft.errors import Error
from weft.source.toolkit import CUDA_12

_WITH_VALUE = (
    "-arch", "--gpu-architecture", "-gencode", "--generate-code", "-code", "--gpu-code",
    "-o", "--output-file", "-cudart", "--cudart",
)  # fmt: skip
_ALONE = ("-c", "--compile", "-run", "--run", "-lineinfo", "--generate-line-info")
_LIBRARIES = (
    r"(cuda|cudart|cudadevrt|cublas(Lt)?|cufftw?|curand|cusparse|cusolver(Mg|_metis|_lapack)?"
    r"|cudnn\w*|culibos|cupti|cuFile\w*|nccl|npp\w+|nvrtc(-builtins)?|nvJitLink|nvToolsExt"
    r"|nvtx3interop|nvjpeg|nvidia-ml|nvfatbin|nvptxcompiler)(_static(_nocallback)?)?"
)
"""Libraries of NVIDIA's, all of which weft serves or replaces by stubs."""
_SERVED = re.compile(rf"-l{_LIBRARIES}")
_SERVED_FILE = re.compile(rf"lib{_LIBRARIES}\.(a|so(\.[\d.]+)?)")
_VERSION = re.compile(r"\d+(\.\d+)?")
CUDA = {"12": ["-I", str(CUDA_12), "-include", "weft_cuda12.h"], "13": []}
"""Flags for programs of a version of CUDA, by its number."""
_COMPILE_VALUE = ("-include", "--pre-include", "-x", "--x")
"""Flags of the compiler alone whose value is the next word."""
_ONLY_COMPILE = re.compile(r"-(rdc|dc$|-relocatable-device-code|-device-c)|--?x=")


def versioned(flags: Sequence[str]) -> list[str]:
    """The flags with those that `--cuda 12` stands for: declarations of CUDA 12.

    nvcc has a flag of the same name, without a version.
    """
    out, words = [], list(flags)
    for i, word in enumerate(words):
        flag, _, version = word.partition("=")
        if flag == "--cuda" and not version and _VERSION.fullmatch("".join(words[i + 1 : i + 2])):
            version = words[i + 1]
        elif i and words[i - 1] == "--cuda" and _VERSION.fullmatch(word):
            continue  # it was read with the word before
        if flag != "--cuda" or not version:
            out.append(word)
            continue
        out += CUDA[_checked(version)]
    return out


def _checked(version: str) -> str:
    major = version.partition(".")[0]
    if major not in CUDA:
        raise Error("no such version of CUDA", got=version, allowed=" or ".join(CUDA))
    return major


def wanted(flags: Sequence[str]) -> list[str]:
    """The flags without architecture, output and the libraries that weft serves."""
    return list(_kept(list(flags)))


def is_served(path: str) -> bool:
    """True if a file is a library that weft serves."""
    return _SERVED_FILE.fullmatch(os.path.basename(path)) is not None


def for_linking(flags: Sequence[str]) -> list[str]:
    """The flags that are valid for linking, where stubs are compiled without any header."""
    before = ["", *flags]
    pairs = zip(before, flags, strict=False)
    values = _COMPILE_VALUE
    kept = (flag for last, flag in pairs if last not in values and flag not in values)
    return [flag for flag in kept if not _ONLY_COMPILE.match(flag)]


def _kept(flags: list[str]) -> Iterator[str]:
    rest = iter(flags)
    for flag in rest:
        if flag in _WITH_VALUE:
            # The value of the flag is the next word.
            next(rest, None)
        elif flag.partition("=")[0] in _WITH_VALUE or flag in _ALONE or _SERVED.fullmatch(flag):
            continue
        else:
            yield flag
