"""Compiles the device code of a file that also has host code, with nvcc and g++.

NVRTC knows device code only. A file with `main`, launches or headers of the host's C++ library is
compiled by nvcc's front end instead, if nvcc is installed.
"""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from weft.errors import CompileError
from weft.source import scan, signature, toolkit

_HOST = re.compile(
    r"\bmain\s*\(|<<<|\bcuda[A-Z]\w+\s*\(|\bstd::|^[ \t]*#[ \t]*include[ \t]*<[a-z_]+>"
    r"|\bu(?:int|short|char|long)\b",
    re.MULTILINE,
)
"""Patterns of host code, and types that only the host's headers define."""
_INSTANCE = "weft_instance_"


class NvccOutput(NamedTuple):
    """The output of nvcc, its messages, and name expression -> entry."""

    data: bytes
    log: str
    entries: dict[str, str]


def has_host_code(text: str) -> bool:
    """True if nvcc may compile a source that NVRTC has rejected."""
    return toolkit.locate("nvcc", toolkit.VARIABLE) is not None and bool(
        _HOST.search(scan.without_comments(text))
    )


def compile(
    main: scan.File,
    flags: Sequence[str],
    folders: Sequence[str],
    expressions: Sequence[str],
    kind: str,
) -> NvccOutput:
    """Compile the device code to `kind`: "ptx" or "cubin"."""
    name = os.path.abspath(main.name)
    near = [f"-I{os.path.dirname(name)}", *(f"-I{folder}" for folder in folders)]
    quiet = [
        "-diag-suppress=177",
        *toolkit.header_options(),
    ]  # unused variables: of the host, and below
    with tempfile.TemporaryDirectory(prefix="weft-") as folder:
        source, out = Path(folder) / "source.cu", Path(folder) / f"source.{kind}"
        text = f'#line 1 "{name}"\n{main.text}\n{_instances(expressions)}'
        source.write_text(text, errors="surrogateescape", encoding="utf-8")
        options = [*toolkit.SIGNED_CHARS, *flags, *near, *quiet]
        arguments = [f"-{kind}", *options, str(source), "-o", str(out)]
        log = toolkit.find().run(arguments, what=f"compile {main.name}")
        data = out.read_bytes()
    return NvccOutput(data, log, _entries(data, expressions) if kind == "ptx" else {})


def _instances(expressions: Sequence[str]) -> str:
    """Host variables that refer to instances of templates: nvcc then compiles the instances."""
    names = [expression.lstrip("&") for expression in expressions]
    return "".join(f"static auto *{_INSTANCE}{i} = &{name};\n" for i, name in enumerate(names))


def _entries(ptx: bytes, expressions: Sequence[str]) -> dict[str, str]:
    spelt = {_plain(name): entry for name, entry in signature.spellings(ptx.decode()).items()}
    missing = [expression for expression in expressions if _plain(expression) not in spelt]
    if missing:
        raise CompileError(
            "nvcc did not compile this kernel",
            got=missing[0],
            allowed=", ".join(signature.spellings(ptx.decode())),
        )
    return {expression: spelt[_plain(expression)] for expression in expressions}


def _plain(name: str) -> str:
    """A name in a normal form, without the variations that C++ allows."""
    return re.sub(r"\s+|^&", "", name)
