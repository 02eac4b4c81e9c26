"""Writes headers that name the functions of NVIDIA's libraries which weft does not have.

    python scripts/library_names.py INCLUDE...      (folders with NVIDIA's headers)

weft has its own headers of these libraries for toolkits without them. A program that calls a
function which they lack has to compile: the call links to a stub that returns "not supported". The
names, handles and constants that a release has and weft's headers do not are written to
`src/weft/source/libraries/*_rest.h`. A function takes any arguments there.
"""

from __future__ import annotations

import argparse
import re
import shutil
import subprocess
import sys
import tempfile
import textwrap
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from weft.source import toolkit

FOLDER = toolkit.LIBRARIES


class Library(NamedTuple):
    """A header of weft's, the library's prefix in names, and what its functions return."""

    header: str
    prefix: str
    status: str


LIBRARIES = (  # each after those whose names it has too
    Library("cublas_v2.h", "cublas", "cublasStatus_t"),
    Library("cublasLt.h", "cublasLt", "cublasStatus_t"),
    Library("cublasXt.h", "cublasXt", "cublasStatus_t"),
    Library("cudnn.h", "cudnn", "cudnnStatus_t"),
    Library("cufft.h", "cufft", "cufftResult"),
    Library("cufftXt.h", "cufft", "cufftResult"),
    Library("cusparse.h", "cusparse", "cusparseStatus_t"),
    Library("cusolver_common.h", "cusolver", "cusolverStatus_t"),
    Library("cusolverDn.h", "cusolver", "cusolverStatus_t"),
    Library("cusolverSp.h", "cusolver", "cusolverStatus_t"),
    Library("cusolverSp_LOWLEVEL_PREVIEW.h", "cusolver", "cusolverStatus_t"),
    Library("cusolverRf.h", "cusolver", "cusolverStatus_t"),
)
_VERSION = re.compile(r"_v2(?=_64$|$)")
"""NVIDIA's headers add it to names by macros."""
_ENUM = re.compile(r"typedef enum\s*\w*\s*\{([^}]*)\}\s*(\w+)\s*;")
_HANDLE = re.compile(r"typedef\s+(?:const\s+)?struct\s+(\w+)\s*\*\s*(\w+)\s*;")
_ATTRIBUTE = re.compile(r"__attribute__\s*\(\(.*?\)\)\)?|\[\[.*?\]\]")
_HEAD = """\
// Names of {header} that weft has nothing for: calls of functions link, and return "not supported".
// Written by scripts/library_names.py; do not edit.
#pragma once

#ifdef __cplusplus
#define WEFT_ANY ...
extern "C" {{
#else
#define WEFT_ANY
#endif
"""
_TAIL = """\
#undef WEFT_ANY
#ifdef __cplusplus
}
#endif
"""


class Names(NamedTuple):
    """The names that a header declares: constants of enumerations, handles, functions."""

    enums: dict[str, list[str]]
    handles: dict[str, str]
    functions: set[str]
    words: set[str]


def declared(library: Library, folders: Sequence[str]) -> Names:
    """The names of a header, after the preprocessor."""
    text = _ATTRIBUTE.sub("", _gxx(["-E", "-P"], _includes(library), folders))
    enums = {
        name: re.findall(r"(\w+)\s*(?:=[^,]*)?(?:,|$)", body) for body, name in _ENUM.findall(text)
    }
    handles = {name: tag for tag, name in _HANDLE.findall(text)}
    functions = re.findall(rf"\b{library.status}\s+(\w+)\s*\(", text)
    names = {_VERSION.sub("", name) for name in functions}
    return Names(enums, handles, names, set(re.findall(r"\w+", text)))


def values(library: Library, names: Names, folders: Sequence[str]) -> dict[str, int]:
    """The values of all constants, which the compiler knows."""
    every = [name for constants in names.enums.values() for name in constants]
    rows = "".join(f'printf("%s %lld\\n", "{name}", (long long){name});\n' for name in every)
    text = f"{_includes(library)}#include <cstdio>\nint main() {{\n{rows}}}\n"
    with tempfile.TemporaryDirectory() as folder:
        program = f"{folder}/values"
        _gxx(["-o", program], text, folders)
        lines = subprocess.run(
            [program], capture_output=True, text=True, check=True, encoding="utf-8"
        ).stdout
    return {name: int(value) for name, value in map(str.split, lines.splitlines())}


def _includes(library: Library) -> str:
    headers = ("cuda_runtime.h", "library_types.h", library.header)
    return "".join(f"#include <{header}>\n" for header in headers)


def _gxx(options: Sequence[str], text: str, folders: Sequence[str]) -> str:
    include = [word for folder in (*folders, toolkit.find().include) for word in ("-I", folder)]
    command = ["g++", *options, "-x", "c++", *include, "-"]
    done = subprocess.run(command, input=text, capture_output=True, text=True, encoding="utf-8")
    if done.returncode:
        sys.exit(done.stderr)
    return done.stdout


def rest(library: Library, theirs: Names, value: Mapping[str, int], ours: Names) -> str:
    """The header of what is missing; "" for nothing."""

    def wanted(name: str) -> bool:
        return name.lower().startswith(library.prefix.lower())

    missing_functions = theirs.functions - ours.functions - ours.words
    functions = sorted(filter(wanted, missing_functions))
    lines: list[str] = []
    for name, constants in theirs.enums.items():
        if name not in ours.words:
            body = ", ".join(f"{key} = {value[key]}" for key in constants)
            lines += _filled(f"typedef enum {{ {body} }} {name};")
        elif missing := [key for key in constants if key not in ours.words]:
            body = ", ".join(f"{key} = ({name}){value[key]}" for key in missing)
            lines += _filled(f"static const {name} {body};")
    for name, tag in theirs.handles.items():
        if name not in ours.words:
            lines.append(f"typedef struct {tag} *{name};")
    if functions:
        every = ", ".join(f"{name}(WEFT_ANY)" for name in functions)
        lines += _filled(f"{library.status} {every};")
    return _HEAD.format(header=library.header) + "\n".join(lines) + "\n" + _TAIL if lines else ""


def _filled(text: str) -> list[str]:
    return textwrap.wrap(text, 100, subsequent_indent="    ", break_long_words=False)


def main(arguments: Sequence[str] | None = None) -> None:
    """Write a file for each library."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("include", nargs="+", help="a folder with NVIDIA's headers")
    folders = parser.parse_args(arguments).include
    with tempfile.TemporaryDirectory() as copy:
        # weft's own headers include the files that are written: they are left out of a copy.
        shutil.copytree(FOLDER, copy, dirs_exist_ok=True)
        for library in LIBRARIES:
            name = f"{Path(library.header).stem}_rest.h"
            Path(copy, name).write_text("", encoding="utf-8")
            theirs, ours = declared(library, folders), declared(library, [copy])
            text = rest(library, theirs, values(library, theirs, folders), ours)
            Path(copy, name).write_text(text, encoding="utf-8")
            (FOLDER / name).write_text(text, encoding="utf-8")
            print(f"{name}: {text.count('(WEFT_ANY)')} functions")


if __name__ == "__main__":
    main()
