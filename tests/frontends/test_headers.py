"""Large headers are read once by the compilers of programs."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from weft.frontends.program import build, headers, steps
from weft.frontends.program.headers import device
from weft.frontends.program.headers.split import split
from weft.source import toolkit

HEADER = """#pragma once
#define TWICE(x) (2 * (x))
#define UNIQUE_(a, b) a##b
#define UNIQUE(a, b) UNIQUE_(a, b)
namespace { __device__ int UNIQUE(first_, __COUNTER__) = 5; }
template <class T> __device__ T more(T x) { return TWICE(x) + first_0; }
"""
PROGRAM = """// a program
#include "thrust/small.h"
#include <cstdio>

namespace { __device__ int UNIQUE(mine_, __COUNTER__) = %(n)s; }
__global__ void k(%(type)s *x) { x[0] = more(x[0]) + %(n)s; }

int main() {
    k<<<1, 1>>>(nullptr);
    return printf("%%d", TWICE(__LINE__));
}
"""


class Compiled:
    """The objects of sources, and whether each was compiled from where its headers were read."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.folder, self.tools = folder, toolkit.find()
        self.resumed: list[bool] = []
        usual = device.front_end

        def spy(side: headers.Side, tools: toolkit.Toolkit) -> str | None:
            printed = usual(side, tools)
            self.resumed.append(printed is not None)
            return printed

        monkeypatch.setenv("WEFT_CACHE_DIR", str(folder / "cache"))
        monkeypatch.setattr(headers, "front_end", spy)

    def object(self, name: str, text: str) -> bytes:
        source, out = self.folder / name, self.folder / "out.o"
        source.write_text(text)
        command = (self.tools.nvcc, *build.device_options("compute_80"), "-I", str(self.folder))
        steps.compile(command, str(source), out, self.tools, only=True)
        return out.read_bytes()


def _ptx(code: bytes) -> list[bytes]:
    found = re.search(rb"\.version.*?\0", code, re.DOTALL)
    assert found
    return found[0].splitlines()


def _files(folder: Path) -> list[str]:
    """The files that the last source was made of, but for the toolkit's."""
    return build._listed(folder / "out.host.d", toolkit.find())


@pytest.mark.skipif(not device._is_possible(), reason="processes are resumed on x86-64 only")
def test_headers_are_read_once_and_again_when_they_change(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "thrust").mkdir()
    header = tmp_path / "thrust" / "small.h"
    header.write_text(HEADER)
    compiled = Compiled(tmp_path, monkeypatch)
    compiled.object("one.cu", PROGRAM % {"n": 3, "type": "int"})
    kept = {path: path.stat().st_ino for path in tmp_path.glob("cache/headers/*/image")}
    assert len(kept) == 2 and compiled.resumed == [True, True]
    second = PROGRAM % {"n": 4, "type": "float"}
    again = compiled.object("two.cu", second)
    assert compiled.resumed == [True] * 4
    assert {path: path.stat().st_ino for path in kept} == kept
    assert len(list(tmp_path.glob("cache/headers/*/headers.h.gch"))) == 1
    assert list(map(Path, _files(tmp_path))) == [tmp_path / "two.cu", header]
    header.write_text(HEADER.replace("2 *", "7 *"))
    changed = compiled.object("two.cu", second)
    assert compiled.resumed == [True] * 6
    monkeypatch.setattr(headers, "front_end", lambda side, tools: None)
    assert _ptx(changed) == _ptx(compiled.object("two.cu", second)) != _ptx(again)
    header.write_text(HEADER)
    assert _ptx(again) == _ptx(compiled.object("two.cu", second))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("#include <thrust/sort.h>\nint x;", ("#include <thrust/sort.h>\n", "int x;", 2)),
        ("// a\n\n#include <cub/a.h>// b\n#undef N", ("#include <cub/a.h>    \n", "#undef N", 4)),
        ("#if A\n#include <c10/a.h>\n#endif\n", ("#if A\n#include <c10/a.h>\n#endif\n", "", 4)),
        ("#include <vector>\nint x;", None),
        ("int x;\n#include <thrust/sort.h>", None),
        ("#include <thrust/sort.h>\nint x;\n#include <vector>", None),
        ("#ifdef A\n#include <thrust/sort.h>\nint x;\n#endif", None),
    ],
)  # fmt: skip
def test_split(tmp_path: Path, text: str, expected: tuple[str, str, int] | None) -> None:
    path = tmp_path / "a.cu"
    path.write_text(text)
    found = split(str(path))
    assert (found and found[:3]) == expected


def test_quoted_headers_are_found_beside_the_source(tmp_path: Path) -> None:
    path = tmp_path / "a.cu"
    path.write_text('#include <thrust/sort.h>\n#include "mine.h"\n')
    found = split(str(path))
    assert found and found.options == ("-iquote", str(tmp_path))
