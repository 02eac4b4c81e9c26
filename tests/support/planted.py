"""Planted bugs, each with a clean twin: kernels with one mistake that the sanitizer must name.

A file in `bugs/` has many cases; those in Python are `.cases`, which are no modules. A case begins
with a comment

    // case: NAME   kind: KIND   grid: 2   block: 64   [cluster: 2] [shared: BYTES] [limit: SECONDS]
    args: ...

and is a whole source with a kernel `k`, behind what the file has before its first case. In it,
lines are marked at their end or beginning:

    ...  //!     this line must be named by a finding of that kind
    ...  //-     only the bug has this line
    //+ ...      only the twin has this line

In Python (`#` instead of `//`) the same holds. Arguments are dtype[length], random unless `=0`,
`=fresh` (allocated and not written) or a number; a number by itself is a scalar; `null`. A tensor
map is `map:dtype[64x64]:8x64:128`: the tensor, the box, the swizzle.
"""

from __future__ import annotations

import contextlib
import importlib.util
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import weft
from folders import TESTS

FOLDER = TESTS / "bugs"
_HEAD = re.compile(r"^(?://|#) case: (.*)$", re.M)
_FIELD = re.compile(r"(\w+): (.*?)(?=\s{2,}\w+: |$)")
_DTYPES = {
    "f16": np.float16, "f32": np.float32, "f64": np.float64, "i32": np.int32, "u32": np.uint32,
    "i64": np.int64, "u16": np.uint16, "u8": np.uint8,
}  # fmt: skip
_MAP = re.compile(r"map:(\w+)\[([\dx]+)\]:([\dx]+):(\d+)")
_ARRAY = re.compile(r"(\w+)\[(\d+)\](?:=(\w+))?")


@dataclass(frozen=True)
class Case:
    """One bug."""

    file: str
    name: str
    kind: str
    grid: tuple[int, ...]
    block: tuple[int, ...]
    cluster: int | None
    shared: int
    limit: float | None
    args: tuple[str, ...]
    text: str

    @property
    def id(self) -> str:
        return f"{Path(self.file).stem}-{self.name}"

    @property
    def language(self) -> str:
        return {".cu": "CUDA C++"}.get(Path(self.file).suffix) or Path(self.file).stem.title()

    @property
    def memory(self) -> str:
        """The location of the bug, for the table."""
        return "shared" if "__shared__" in self.text or "shared" in self.name else "global"

    def lines(self) -> set[int]:
        """The lines that may be named, counted in the source with the bug."""
        text = self.source(bug=True).splitlines()
        return {i for i, line in enumerate(text, 1) if re.search(r"(//|#)!", line)}

    def source(self, *, bug: bool) -> str:
        out = []
        for line in self.text.splitlines():
            added = re.match(r"(\s*)(?://|#)\+ ?(.*)", line)
            if added:
                out.append("" if bug else added[1] + added[2])
            elif re.search(r"(//|#)-\s*$", line) and not bug:
                out.append("")
            else:
                out.append(line)
        return "\n".join(out) + "\n"

    def arguments(self, empty: Any) -> list[Any]:
        """Fresh arguments; `empty(length, dtype)` makes memory that counts as not written."""
        random = np.random.default_rng(7)
        return [_argument(a, random, empty) for a in self.args]


def _argument(text: str, random: np.random.Generator, empty: Any) -> Any:
    if text == "null":
        return None
    if re.fullmatch(r"-?\d+", text):
        return int(text)
    if found := _MAP.fullmatch(text):
        shape, box = (tuple(map(int, x.split("x"))) for x in found.group(2, 3))
        tensor = random.integers(0, 3, shape).astype(_DTYPES[found[1]])
        return weft.tensor_map(tensor, box, swizzle=int(found[4]))
    found = _ARRAY.fullmatch(text)
    assert found is not None, text
    dtype, length, how = _DTYPES[found[1]], int(found[2]), found[3]
    if how == "fresh":
        return empty(length, dtype)
    if how is not None:
        return np.full(length, int(how), dtype)
    if np.dtype(dtype).kind == "f":
        return random.standard_normal(length).astype(dtype)
    return random.integers(1, 100, length).astype(dtype)


def cases(suffix: str = "") -> Iterator[Case]:
    """All of them, file by file."""
    for path in sorted(FOLDER.iterdir()):
        if path.suffix not in (".cu", ".cases") or not path.name.endswith(suffix):
            continue
        text = path.read_text()
        heads = list(_HEAD.finditer(text))
        prelude = text[: heads[0].start()]
        if all(line.startswith("//") for line in prelude.splitlines() if line):
            prelude = ""  # only words
        ends = [h.start() for h in heads[1:]] + [len(text)]
        for head, end in zip(heads, ends, strict=True):
            yield _case(path.name, head[1], prelude + text[head.end() : end].lstrip("\n"))


def _case(file: str, head: str, text: str) -> Case:
    name, _, rest = head.partition(" ")
    fields = dict(_FIELD.findall(rest.strip()))
    return Case(
        file=file,
        name=name,
        kind=fields["kind"],
        grid=tuple(map(int, fields["grid"].split())),
        block=tuple(map(int, fields.get("block", "32").split())),
        cluster=int(fields["cluster"]) if "cluster" in fields else None,
        shared=int(fields.get("shared", 0)),
        limit=float(fields["limit"]) if "limit" in fields else None,
        args=tuple(fields["args"].split()),
        text=text,
    )


def sanitized(case: Case, bug: bool, folder: Path) -> Any:
    """Runs a case under the sanitizer; its report."""
    launch = LAUNCHES[case.language](case, bug, folder)
    with weft.sanitize(raises=False) as report, contextlib.suppress(weft.DeviceError):
        launch()
    return report


def named(case: Case, findings: Sequence[Any]) -> bool:
    """Return whether there is one of the right kind that names one of the lines."""
    lines = case.lines()
    return any(f.kind == case.kind and any(a.number in lines for a in f.accesses) for f in findings)


def _cuda(case: Case, bug: bool, folder: Path) -> Callable[[], None]:
    kernel = weft.cuda(case.source(bug=bug), name=f"{case.name}.cu").kernel("k")
    args = case.arguments(weft.sanitizer.empty)
    launch = kernel[case.grid, case.block, case.shared, None, case.cluster]
    return lambda: launch(*args, time_limit=case.limit)


def _module(case: Case, bug: bool, folder: Path) -> Any:
    """A case's source as a module: compilers want to see a file."""
    name = f"{Path(case.file).stem}_{case.name}_{'bug' if bug else 'twin'}"
    path = folder / f"{name}.py"
    path.write_text(case.source(bug=bug))
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _numba(case: Case, bug: bool, folder: Path) -> Callable[[], None]:
    kernel = weft.kernel(_module(case, bug, folder).k)
    args = case.arguments(weft.sanitizer.empty)
    return lambda: kernel[case.grid, case.block](*args)


def _triton(case: Case, bug: bool, folder: Path) -> Callable[[], None]:
    kernel = weft.kernel(_module(case, bug, folder).k)
    import torch

    given = case.arguments(weft.sanitizer.empty)
    args = [torch.from_numpy(a) if isinstance(a, np.ndarray) else a for a in given]
    return lambda: kernel[case.grid](*args)


LAUNCHES = {"CUDA C++": _cuda, "Numba": _numba, "Triton": _triton}
