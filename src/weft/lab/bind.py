"""Binds a job: compiles its source, and calls its launches with arrays and sizes by name."""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import itertools
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from weft.climbing.maps import in_source
from weft.climbing.rung import Rung, step
from weft.errors import ArgumentError, MissingDependency
from weft.installation import pip_install
from weft.kernels import Kernel, Launch, Module, cuda
from weft.lab.job import Job
from weft.measure.expressions import whole, wholes

Call = tuple[Launch, list[Any]]
_NUMBERS = itertools.count()


class Bound:
    """A job that is ready to run."""

    module: Module | None = None

    def __init__(self, job: Job, planned: Rung | None = None) -> None:
        """`planned` is the rung that a job without launches takes its launches from."""
        self.job, self._planned = job, planned

    def run(self, values: Mapping[str, Any], limit: float | None = None) -> None:
        """Run everything once; `values` are arrays and sizes by name."""
        raise NotImplementedError


class BoundCuda(Bound):
    """Kernels in CUDA C++: the launches of the form, each `kernel<<<grid, block, shared>>>`."""

    def __init__(self, job: Job, planned: Rung | None = None) -> None:
        super().__init__(job, planned)
        self.module: Module = cuda(
            job.source, name=job.file, device=job.device, include=job.include, defines=job.defines
        )

    @property
    def kernels(self) -> list[Kernel]:
        """The kernels of the source, and the instances of templates that launches name."""
        launched = (line.partition("<<<")[0].strip() for line in self.job.launches)
        names = [*self.module.names, *(name for name in launched if "<" in name)]
        return [self.module.kernel(name) for name in dict.fromkeys(names)]

    def run(self, values: Mapping[str, Any], limit: float | None = None) -> None:
        for launch, args in self.calls(values):
            launch(*args, time_limit=limit)

    def calls(self, values: Mapping[str, Any]) -> Iterator[Call]:
        """The launches with their arguments, in order."""
        sizes = self.job.scope | {n: v for n, v in values.items() if isinstance(v, int | float)}
        made = {m.name: m.made(values, sizes) for m in in_source(self.job.source, self.job.file)}
        values = {**values, **made}
        for name, grid, block, shared in self._dims(sizes):
            if 0 in grid:  # empty arrays
                continue
            kernel = self.module.kernel(name)
            args = [self._named(name, values, n) for n in kernel.packer.names]
            yield kernel[grid, block, shared], args

    def _dims(
        self, sizes: Mapping[str, int | float]
    ) -> Iterator[tuple[str, tuple[int, ...], tuple[int, ...], int]]:
        if not self.job.launches and self._planned is not None:
            yield from self._planned.dims({n: int(v) for n, v in sizes.items()})
            return
        if not self.job.launches:
            raise ArgumentError(
                "the form has no launch",
                next=f"{(self.module.names or ['kernel'])[0]}<<<cdiv(n, 256), 256>>>",
            )
        for line in self.job.launches:
            one = step(Path("launch"), line)
            grid, block = wholes(one.grid, sizes), wholes(one.block, sizes)
            yield one.kernel, grid, block, whole(one.shared, sizes)

    def _named(self, kernel: str, values: Mapping[str, Any], name: str) -> Any:
        if name not in values:
            raise ArgumentError(
                f"the form has no value for '{name}' of {kernel}",
                allowed=", ".join(values) or "the form is empty",
                next=f"add a row '{name}' to the form; Fill adds all that are missing",
            )
        return values[name]


class BoundPython(Bound):
    """Triton or Numba: a Python module with a function `run`, called by its parameters' names."""

    def __init__(self, job: Job) -> None:
        super().__init__(job)
        try:
            if job.kind == "triton":  # its driver, before the source imports it
                import weft.triton
            else:
                import weft.numba  # noqa: F401
        except ModuleNotFoundError as error:
            raise MissingDependency(
                f"{job.kind} is not installed", next=pip_install(job.kind)
            ) from error
        self._run = _function(job)

    def run(self, values: Mapping[str, Any], limit: float | None = None) -> None:
        wanted = inspect.signature(self._run).parameters
        missing = [n for n, p in wanted.items() if n not in values and p.default is p.empty]
        if missing:
            raise ArgumentError(
                f"the form has no value for '{missing[0]}' of run",
                allowed=", ".join(values),
                next=f"add a row '{missing[0]}' to the form",
            )
        self._run(**{n: values[n] for n in wanted if n in values})


def bind(job: Job, planned: Rung | None = None) -> Bound:
    """Compile CUDA C++, or import a Python source, which executes it."""
    if job.is_python:
        return BoundPython(job)
    return BoundCuda(job, planned)


def _function(job: Job) -> Callable[..., Any]:
    name = f"weft_lab_{next(_NUMBERS)}"
    # Triton reads the source of a kernel from its file. The worker's folder is its own.
    path = Path(name, job.file).absolute()
    path.parent.mkdir()
    path.write_text(job.source, encoding="utf-8")
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    run = getattr(module, "run", None)
    if not callable(run):
        raise ArgumentError(
            "a Python source of the lab has a function `run`",
            got=", ".join(n for n in vars(module) if not n.startswith("_"))[:200],
            next="def run(x, y, n): kernel[grid](x, y, n)",
        )
    return run  # type: ignore[no-any-return]
