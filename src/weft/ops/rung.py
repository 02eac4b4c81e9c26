"""A rung of a ladder: one file whose header says its idea and how it is launched.

    // rung:   02 coalesced
    // idea:   neighbouring threads read neighbouring addresses
    // expect: load sectors per request <= 4
    // launch: matmul<<<(cdiv(N, 32), cdiv(M, 32)), (32, 32)>>>

Keys of a header: `rung`, `idea`, `launch` (several are run in order), `scratch` (arrays that live
from launch to launch), `clear` (an array that is zeroed before), `expect` (facts that the
simulator's counters must bear out), `lesson` (what was measured, and why), `precision`.
Kernel parameters are bound by their names: arrays and sizes of the operation, and scratch.
A Python rung has the header in its docstring and a function `run` with parameters of those names.
"""

from __future__ import annotations

import functools
import importlib.util
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from weft import kernels
from weft.errors import ArgumentError, MissingDependency
from weft.measure.op import Op, Slot, evaluate, slots, split

KEYS = ("rung", "idea", "launch", "scratch", "clear", "expect", "lesson", "precision", "arrays")
_LAUNCH = re.compile(r"([\w:<>, ]+?)<<<(.*)>>>\s*$")
_NAME = re.compile(r"rung_(\d+)_(\w+)\.(cu|py)$")


@dataclass(frozen=True)
class Step:
    """One launch: `kernel<<<grid, block, shared>>>`, as expressions of the sizes."""

    kernel: str
    grid: str
    block: str
    shared: str = "0"


@dataclass(frozen=True)
class Rung:
    """One way to compute an operation."""

    number: int
    name: str
    path: Path
    idea: str
    steps: tuple[Step, ...]
    scratch: tuple[Slot, ...]
    clear: tuple[str, ...]
    expect: tuple[str, ...]
    lesson: str
    precision: str
    arrays: str

    @property
    def title(self) -> str:
        return f"{self.number:02} {self.name}"

    @property
    def language(self) -> str:
        if self.path.suffix == ".cu":
            return "CUDA C++"
        text = self.path.read_text()
        for library, name in (("triton", "Triton"), ("numba", "Numba")):
            if re.search(rf"^\s*(import|from) {library}\b", text, re.MULTILINE):
                return name
        return "Python"


def read(path: Path) -> Rung:
    """A rung from its file."""
    named = _NAME.search(path.name)
    if named is None:
        raise ArgumentError(
            "not the name of a rung", got=path.name, allowed="rung_NN_name.cu or rung_NN_name.py"
        )
    said = _header(path)
    if not said.get("idea"):
        raise ArgumentError(
            "a rung says its idea in its header", where=str(path), next="// idea: what is new here"
        )
    steps = tuple(_step(path, text) for text in said.get("launch", ()))
    if path.suffix == ".cu" and not steps:
        raise ArgumentError(
            "a rung says how it is launched",
            where=str(path),
            next="// launch: kernel<<<cdiv(n, 256), 256>>>",
        )
    return Rung(
        int(named[1]),
        named[2].replace("_", " "),
        path,
        " ".join(said["idea"]),
        steps,
        tuple(slot for text in said.get("scratch", ()) for slot in slots(text)),
        tuple(name.strip() for text in said.get("clear", ()) for name in text.split(",")),
        said.get("expect", ()),
        " ".join(said.get("lesson", ())),
        " ".join(said.get("precision", ())) or "f32",
        " ".join(said.get("arrays", ())),
    )


def _header(path: Path) -> dict[str, tuple[str, ...]]:
    """The keys of the comment, or the docstring, at the head of a file; long values go on."""
    out: dict[str, list[str]] = {}
    key = ""
    for line in path.read_text().splitlines():
        text = line.strip().removeprefix('"""').removeprefix("//").rstrip('"').rstrip()
        if path.suffix == ".cu" and not line.startswith("//"):
            break
        if path.suffix == ".py" and line.startswith(("import", "from")):
            break
        found = re.match(rf"\s*({'|'.join(KEYS)}):\s*(.*)", text)
        if found:
            key = found[1]
            out.setdefault(key, []).append(found[2])
        elif key and text.strip():
            out[key][-1] += " " + text.strip()
        elif not text.strip():
            key = ""
    return {k: tuple(v) for k, v in out.items()}


def _step(path: Path, text: str) -> Step:
    found = _LAUNCH.match(text)
    parts = split(found[2]) if found else []
    if found is None or not 2 <= len(parts) <= 3:
        raise ArgumentError(
            "a launch cannot be read",
            where=str(path),
            got=text,
            allowed="kernel<<<grid, block>>> or kernel<<<grid, block, shared bytes>>>",
        )
    return Step(found[1].strip(), *(part.strip() for part in parts))


# ---- running ---------------------------------------------------------------------------------
Empty = Callable[[str, tuple[int, ...], Any], Any]
"""(type, shape, an array of the library and device wanted) -> a new array."""


def solution(rung: Rung, op: Op, *, sms: int, empty: Empty) -> Callable[..., Any]:
    """A function of the operation's arrays and sizes, by name, that runs the rung."""
    run = _python(rung) if rung.path.suffix == ".py" else _cuda(rung, op, sms, empty)
    run.__name__ = rung.path.stem
    return run


def _python(rung: Rung) -> Callable[..., Any]:
    name = f"weft_rung_{rung.path.parent.name}_{rung.path.stem}"
    spec = importlib.util.spec_from_file_location(name, rung.path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except ModuleNotFoundError as error:
        raise MissingDependency(
            f"{rung.title} needs {error.name}", next=f"pip install 'weft[{error.name}]'"
        ) from None
    run: Callable[..., Any] | None = getattr(module, "run", None)
    if run is None:
        raise ArgumentError("a Python rung has a function `run`", where=str(rung.path))
    return functools.wraps(run)(lambda *args, **named: run(*args, **named))


def _cuda(rung: Rung, op: Op, sms: int, empty: Empty) -> Callable[..., Any]:
    module = kernels.cuda(rung.path)
    names = [s.name for s in (*op.inputs, *op.outputs)]
    kept: dict[tuple[Any, ...], Any] = {}

    def run(**given: Any) -> None:
        sizes = {n: v for n, v in given.items() if n not in names} | {"sms": sms}
        like = given[names[0]]
        known = {**given, **_scratch(rung, sizes, like, empty, kept)}
        for name in rung.clear:
            _zero(known[name])
        for step in rung.steps:
            kernel = module.kernel(step.kernel)
            grid, block = _dims(step.grid, sizes), _dims(step.block, sizes)
            shared = int(evaluate(step.shared, sizes))
            kernel[grid, block, shared](*[known[n] for n in kernel.packer.names])

    return run


def _scratch(
    rung: Rung, sizes: Mapping[str, int], like: Any, empty: Empty, kept: dict[tuple[Any, ...], Any]
) -> dict[str, Any]:
    """Arrays for a rung's own use; kept from call to call, as a library keeps its workspace."""
    out = {}
    for slot in rung.scratch:
        shape = tuple(int(evaluate(text, sizes)) for text in slot.sizes)
        key = (slot.name, shape, str(getattr(like, "device", "")))
        if key not in kept:
            kept[key] = empty(slot.dtype.name, shape, like)
        out[slot.name] = kept[key]
    return out


def _zero(array: Any) -> None:
    if hasattr(array, "zero_"):
        array.zero_()
    else:
        array[...] = 0


def _dims(text: str, sizes: Mapping[str, int]) -> tuple[int, ...]:
    inner = text[1:-1] if text.startswith("(") and text.endswith(")") else text
    return tuple(int(evaluate(part, sizes)) for part in split(inner))
