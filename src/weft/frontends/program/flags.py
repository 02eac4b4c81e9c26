"""Filters the user's nvcc flags: those that `weft run` sets itself are removed."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

_WITH_VALUE = (
    "-arch", "--gpu-architecture", "-gencode", "--generate-code", "-code", "--gpu-code",
    "-o", "--output-file", "-cudart", "--cudart",
)  # fmt: skip
_ALONE = ("-c", "--compile", "-run", "--run", "-lineinfo", "--generate-line-info")
_SERVED = re.compile(r"-l(cuda\w*|cu(blas|rand|fft|sparse|solver|dnn)\w*|nv\w+|npp\w*)")
_ONLY_COMPILE = re.compile(r"-(rdc|dc$|-relocatable-device-code|-device-c)|--x$|-x$")


def wanted(flags: Sequence[str]) -> list[str]:
    """The flags without architecture, output and the libraries that weft serves."""
    return list(_kept(list(flags)))


def for_linking(flags: Sequence[str]) -> list[str]:
    """The flags that are valid for linking."""
    return [flag for flag in flags if not _ONLY_COMPILE.match(flag)]


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
