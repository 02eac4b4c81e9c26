"""Reads and runs a rung: one file whose header states its idea and its launches.

    // rung:   02 coalesced
    // idea:   neighbouring threads read neighbouring addresses
    // expect: load sectors per request <= 4
    // launch: matmul<<<(cdiv(N, 32), cdiv(M, 32)), (32, 32)>>>

Keys of a header: `rung`, `idea`, `launch` (several are run in order), `scratch` (arrays that live
from launch to launch), `clear` (an array that is zeroed before), `map` (a tensor map of an array:
see maps.py), `needs` (the least architecture, e.g. sm_90), `expect` (facts that the simulator's
counters must bear out), `lesson` (what was measured, and why), `precision`, `arrays` (torch, or
numpy for code that runs on the CPU), `bench` (sizes to time a slow rung on).
Launches that need more than an expression are written in Python: in `launch.py` beside the rung, a
function with the name of the rung's file yields (kernel, grid, block, bytes of shared memory). Its
`DEFINES` are macros of all rungs: the structs of kernels that a rung includes.
Kernel parameters are bound by name to arrays and sizes of the operation and to scratch arrays.
A Python rung has the header in its docstring and a function `run` with such parameters.
"""

from __future__ import annotations

import difflib
import importlib.util
import inspect
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any

from weft import kernels
from weft.climbing import maps
from weft.climbing.maps import MapSpec
from weft.errors import ArgumentError, MissingDependency
from weft.installation import pip_install
from weft.kernels import Launch
from weft.measure.expressions import whole, wholes
from weft.measure.op import ArraySpec, Op, array_specs, split

KEYS = (
    "rung", "idea", "launch", "scratch", "clear", "map", "needs", "expect", "lesson", "precision",
    "arrays", "bench",
)  # fmt: skip
_LAUNCH = re.compile(r"([\w:<>, ]+?)<<<(.*)>>>\s*$")
_NAME = re.compile(r"rung_(\d+)_(\w+)\.(cu|py)$")
_EXTRAS = ("torch", "triton", "numba")
"""Optional packages; a rung that needs a missing one is skipped."""

Dims = tuple[int, ...]
Sized = tuple[str, Dims, Dims, int]
"""One launch for given sizes: kernel, grid, block, bytes of shared memory."""
Planner = Callable[..., Iterable[tuple[str, int | Dims, int | Dims, int]]]
"""The function of `launch.py`: takes the sizes that its parameters name."""


@dataclass(frozen=True)
class LaunchStep:
    """One launch `kernel<<<grid, block, shared>>>`, as expressions over sizes."""

    kernel: str
    grid: str
    block: str
    shared: str = "0"


@dataclass(frozen=True)
class Rung:
    """One implementation of an operation."""

    number: int
    name: str
    path: Path
    idea: str
    steps: tuple[LaunchStep, ...]
    scratch: tuple[ArraySpec, ...]
    clear: tuple[str, ...]
    expect: tuple[str, ...]
    lesson: str
    precision: str
    arrays: str
    bench: Mapping[str, int]
    planner: Planner | None = None
    defines: Mapping[str, str] = field(default_factory=dict)
    maps: tuple[MapSpec, ...] = ()
    needs: tuple[int, int] = (0, 0)

    @property
    def title(self) -> str:
        return f"{self.number:02} {self.name}" if self.number >= 0 else self.name

    @property
    def language(self) -> str:
        return language(self.path)

    def dims(self, sizes: Mapping[str, int]) -> Iterator[Sized]:
        """The launches for these sizes, which include `sms`."""
        for step in self.steps:
            grid, block = wholes(step.grid, sizes), wholes(step.block, sizes)
            yield step.kernel, grid, block, whole(step.shared, sizes)
        if self.planner is not None:
            wanted = inspect.signature(self.planner).parameters
            for name, blocks, threads, shared in self.planner(**{n: sizes[n] for n in wanted}):
                yield name, _tuple(blocks), _tuple(threads), shared

    def scratch_shapes(
        self, sizes: Mapping[str, int]
    ) -> Iterator[tuple[ArraySpec, tuple[int, ...]]]:
        """The scratch arrays and their shapes for these sizes."""
        for spec in self.scratch:
            yield spec, tuple(whole(text, sizes) for text in spec.sizes)


def language(path: Path) -> str:
    """The language of a rung's file."""
    if path.suffix == ".cu":
        return "CUDA C++"
    text = path.read_text(encoding="utf-8")
    # Read from the text: importing the rung would need the package.
    for library, name in (("triton", "Triton"), ("numba", "Numba")):
        if re.search(rf"^\s*(import|from) {library}\b", text, re.MULTILINE):
            return name
    return "Python"


def title(path: Path) -> str:
    """The number and the name of a rung, from its file name."""
    named = _NAME.search(path.name)
    assert named is not None, path
    return f"{int(named[1]):02} {named[2].replace('_', ' ')}"


def read(path: Path) -> Rung:
    """Read a rung from its file."""
    named = _NAME.search(path.name)
    if named is None:
        raise ArgumentError(
            "not the name of a rung", got=path.name, allowed="rung_NN_name.cu or rung_NN_name.py"
        )
    header = _header(path)
    if not header.get("idea"):
        raise ArgumentError(
            "a rung says its idea in its header", where=str(path), next="// idea: what is new here"
        )
    steps = tuple(step(path, text) for text in header.get("launch", ()))
    beside = _launches(path) if path.suffix == ".cu" else None
    planner: Planner | None = None if steps else getattr(beside, path.stem, None)
    if path.suffix == ".cu" and not steps and planner is None:
        raise ArgumentError(
            "a rung says how it is launched",
            where=str(path),
            next="// launch: kernel<<<cdiv(n, 256), 256>>>, "
            f"or a function {path.stem} in launch.py",
        )
    return Rung(
        int(named[1]),
        named[2].replace("_", " "),
        path,
        " ".join(header["idea"]),
        steps,
        tuple(spec for text in header.get("scratch", ()) for spec in array_specs(text)),
        tuple(name.strip() for text in header.get("clear", ()) for name in text.split(",")),
        header.get("expect", ()),
        " ".join(header.get("lesson", ())),
        " ".join(header.get("precision", ())) or "f32",
        " ".join(header.get("arrays", ())),
        _sizes(path, " ".join(header.get("bench", ()))),
        planner,
        getattr(beside, "DEFINES", {}),
        tuple(maps.read(text, str(path)) for text in header.get("map", ())),
        _architecture(path, " ".join(header.get("needs", ()))),
    )


def _architecture(path: Path, text: str) -> tuple[int, int]:
    """Parse `sm_90`."""
    match = re.fullmatch(r"(?:sm_(\d+)(\d))?", text)
    if match is None:
        raise ArgumentError(
            "an architecture cannot be read", where=str(path), got=text, allowed="sm_90"
        )
    return int(match[1] or 0), int(match[2] or 0)


def _sizes(path: Path, text: str) -> dict[str, int]:
    """Parse `M=64, N=64`."""
    pairs = [part.partition("=") for part in text.split(",") if part.strip()]
    if not all(value.strip() for _, _, value in pairs):
        raise ArgumentError("sizes cannot be read", where=str(path), got=text, allowed="M=64, N=64")
    return {name.strip(): whole(value, {}) for name, _, value in pairs}


def _header(path: Path) -> dict[str, tuple[str, ...]]:
    """The keys in the comment or docstring at the top of a file; values may span lines."""
    out: dict[str, list[str]] = {}
    key = ""
    for line in path.read_text(encoding="utf-8").splitlines():
        text = line.strip().removeprefix('"""').removeprefix("//").removesuffix('"""').rstrip()
        if path.suffix == ".cu" and not line.startswith("//"):
            break
        if path.suffix == ".py" and line.startswith(("import", "from")):
            break
        match = re.match(rf"\s*({'|'.join(KEYS)}):\s*(.*)", text)
        if match:
            key = match[1]
            out.setdefault(key, []).append(match[2])
        elif key and text.strip():
            _no_typo(path, text.strip())
            out[key][-1] += " " + text.strip()
        elif not text.strip():
            key = ""
    return {k: tuple(v) for k, v in out.items()}


def _no_typo(path: Path, text: str) -> None:
    """Raise if a continuation line looks like a misspelt key, which would be ignored."""
    word = re.match(r"(\w+):\s", text)
    near = difflib.get_close_matches(word[1], KEYS, 1, cutoff=0.75) if word else []
    if near:
        raise ArgumentError(
            "no such key in the header of a rung",
            where=str(path),
            got=text,
            allowed=", ".join(KEYS),
            next=f"did you mean '{near[0]}:'?",
        )


def step(path: Path, text: str) -> LaunchStep:
    """Read one launch: `kernel<<<grid, block>>>`."""
    match = _LAUNCH.match(text)
    parts = split(match[2]) if match else []
    if match is None or not 2 <= len(parts) <= 3:
        raise ArgumentError(
            "a launch cannot be read",
            where=str(path),
            got=text,
            allowed="kernel<<<grid, block>>> or kernel<<<grid, block, shared bytes>>>",
        )
    return LaunchStep(match[1].strip(), *(part.strip() for part in parts))


def _launches(path: Path) -> ModuleType | None:
    """The module `launch.py` beside a rung; None if there is none."""
    file = path.with_name("launch.py")
    return load(file) if file.is_file() else None


def _tuple(size: int | Dims) -> Dims:
    return size if isinstance(size, tuple) else (size,)


# ---- running ---------------------------------------------------------------------------------
Empty = Callable[[str, tuple[int, ...], Any], Any]
"""(type, shape, an array of the wanted library and device) -> a new array of zeros."""


class Runner:
    """A compiled rung; scratch arrays are reused across calls."""

    def __init__(self, rung: Rung, op: Op, *, sms: int, empty: Empty) -> None:
        self.rung, self.sms, self._empty = rung, sms, empty
        self._names = [s.name for s in (*op.inputs, *op.outputs)]
        self._kept: dict[tuple[Any, ...], Any] = {}
        if rung.path.suffix == ".py":
            self._run = _python(rung)
        else:
            self._module = kernels.cuda(rung.path, defines=rung.defines)

    @property
    def __name__(self) -> str:
        return self.rung.path.stem

    def __call__(self, **arguments: Any) -> Any:
        """Computes the operation; arguments are arrays and sizes by name."""
        if self.rung.path.suffix == ".py":
            return self._run(**arguments)
        for launch, args in self.launches(arguments):
            launch(*args)
        return None

    def launches(self, arguments: Mapping[str, Any]) -> Iterator[tuple[Launch, list[Any]]]:
        """The launches of a CUDA rung with their arguments, in order."""
        sizes = {n: v for n, v in arguments.items() if n not in self._names} | {"sms": self.sms}
        values = {**arguments, **self._scratch(sizes, arguments[self._names[0]])}
        values |= {made.name: made.made(values, sizes) for made in self.rung.maps}
        for name in self.rung.clear:
            # Cleared for each call: kernels accumulate into these arrays.
            _zero(self._named(values, name))
        for name, grid, block, shared in self.rung.dims(sizes):
            # Empty arrays give an empty grid, which CUDA refuses.
            if 0 in grid:
                continue
            kernel = self._module.kernel(name)
            yield kernel[grid, block, shared], [self._named(values, n) for n in kernel.packer.names]

    def _named(self, values: Mapping[str, Any], name: str) -> Any:
        """The value of a kernel parameter or of a name in `clear`."""
        if name not in values:
            raise ArgumentError(
                f"nothing says what '{name}' is",
                where=self.rung.path.name,
                allowed=f"{', '.join(values)}, and arrays of `scratch`",
            )
        return values[name]

    def _scratch(self, sizes: Mapping[str, int], like: Any) -> dict[str, Any]:
        """Scratch arrays, kept like the workspace of a library."""
        out = {}
        for spec, shape in self.rung.scratch_shapes(sizes):
            # Sizes and devices may change between calls; each combination keeps its array.
            key = (spec.name, shape, str(getattr(like, "device", "")))
            if key not in self._kept:
                self._kept[key] = self._empty(spec.dtype.name, shape, like)
            out[spec.name] = self._kept[key]
        return out


def _python(rung: Rung) -> Callable[..., Any]:
    try:
        module = load(rung.path)
    except ModuleNotFoundError as error:
        if error.name not in _EXTRAS:  # the rung's own module, or a misspelt one
            raise
        extra = "triton" if rung.language == "Triton" else error.name  # which includes torch
        raise MissingDependency(
            f"{rung.title} needs {error.name}", next=pip_install(extra)
        ) from None
    run: Callable[..., Any] | None = getattr(module, "run", None)
    if run is None:
        raise ArgumentError("a Python rung has a function `run`", where=str(rung.path))
    wanted = set(inspect.signature(run).parameters)
    return lambda **arguments: run(**{n: v for n, v in arguments.items() if n in wanted})


def load(path: Path) -> ModuleType:
    """Import a file as a module of its own."""
    name = f"weft_rung_{path.parent.name}_{path.stem}"
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _zero(array: Any) -> None:
    if hasattr(array, "zero_"):
        array.zero_()
    else:
        array[...] = 0
