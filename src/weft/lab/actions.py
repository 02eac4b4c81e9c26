"""What a worker does with a job: inspect, run, check, sanitize, profile.

Each action returns values for JSON, or raises; the worker turns an error into its text and marks.
"""

from __future__ import annotations

import inspect as python_inspect
import math
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

import weft.sanitizer
from weft.device.selection import select
from weft.errors import ArgumentError, CompileWarning, DeviceError, Error
from weft.lab import formula, marks, origins, sass, suggest, view
from weft.lab.bind import Bound, BoundCuda, bind
from weft.lab.job import Job
from weft.learn.grade import grade
from weft.measure.check import buffers
from weft.measure.check.check import Report, check
from weft.measure.expressions import whole
from weft.measure.op import Case, Op
from weft.measure.profile.profile import profile
from weft.measure.profile.session import Recording, recording
from weft.ptx.model import Instruction
from weft.ptx.parse import parse
from weft.report.profile import Profile, with_views

EXECUTIONS = 32
"""Executions of each access that a trace keeps for each warp."""
SHOWN = 8
"""Rows, and elements of each, that the page shows of an array."""

Answer = dict[str, Any]


def inspect(job: Job, limit: float) -> Answer:
    """Compiles and runs nothing: PTX, SASS, and rows that the form lacks."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", CompileWarning)
        bound = _bound(job)
    if not isinstance(bound, BoundCuda):
        return {"ptx": [], "sass": [], "note": "Profile shows the PTX of Python kernels."}
    found = [m for one in caught for m in marks.of_warning(str(one.message))]
    return {"marks": found, "suggest": suggest.rows(job, bound.module), **_code(job, bound)}


def run(job: Job, limit: float) -> Answer:
    """Runs the launches once and shows the arrays."""
    bound, arrays = _bound(job), _arrays(job)
    before = {name: np.array(buffers.bits(a)) for name, a in arrays.items()}
    started = time.monotonic()
    bound.run({**arrays, **job.sizes}, limit)
    seconds = time.monotonic() - started
    return {
        "seconds": seconds,
        "results": [_shown(job, n, a, before[n]) for n, a in arrays.items()],
    }


def sanitize(job: Job, limit: float) -> Answer:
    """Runs under the sanitizer; findings become marks at their lines."""
    bound, arrays = _bound(job), _arrays(job)
    failed: DeviceError | None = None
    with weft.sanitizer.sanitize(raises=False) as report:
        try:
            bound.run({**arrays, **job.sizes}, limit)
        except DeviceError as error:
            if not report.findings:
                raise
            failed = error  # it is among the findings
    found = [m for f in report.findings for m in marks.of_finding(f)]
    return {
        "findings": [{**f.to_dict(), "text": str(f)} for f in report.findings],
        "summary": report.summary,
        "stopped": str(failed) if failed else "",
        "marks": found,
    }


def check_(job: Job, limit: float) -> Answer:
    """Checks against the exercise, the operation of the ladder, or the form's reference."""
    if (exercise := origins.exercise(job.origin)) is not None:
        path = Path(job.file)
        path.write_text(job.source, encoding="utf-8")
        graded = grade(exercise, path)
        found = marks.of_error(Error(graded.words))["marks"] if not graded.passed else []
        return {"passed": graded.passed, "text": graded.words, "marks": found}
    report = _checked(job)
    trials = [[t.trial, f"{t.worst:.2g}", t.deterministic] for t in report.trials]
    return {"passed": True, "text": str(report), "trials": trials}


def profile_(job: Job, limit: float) -> Answer:
    """Profiles every launch; traces go beside, because the page asks for them line by line."""
    profiles = [with_views(p) for p in _profiles(job, limit)]
    if not profiles:
        raise ArgumentError("nothing was launched", next="does `run` launch a kernel?")
    return {
        "launches": [view.view(p) for p in profiles],
        "traces": [view.traces(p) for p in profiles],
        "records": [_record(p) for p in profiles],
    }


ACTIONS: Mapping[str, Callable[[Job, float], Answer]] = {
    "inspect": inspect,
    "run": run,
    "check": check_,
    "sanitize": sanitize,
    "profile": profile_,
}


def prepared(job: Job, include: Sequence[str]) -> Job:
    """The job with folders of headers: those of the server, and that of its origin."""
    folder = origins.folder(job.origin)
    return replace(job, include=(*include, *([str(folder)] if folder else [])))


def _bound(job: Job) -> Bound:
    on = origins.rung(job.origin)
    return bind(job, on[1] if on else None)


def _arrays(job: Job) -> dict[str, Any]:
    """The arrays of a job; the operation of its origin gives data that has structure."""
    op = origins.operation(job.origin)
    if op is None:
        return job.make()
    case, rng = Case.of({n: int(v) for n, v in job.sizes.items()}), np.random.default_rng(0)
    own = {s.name: s for s in op.inputs if s.name in op.fill}
    return job.make(lambda name: op.own_data(own[name], case, rng))


# ---- check ---------------------------------------------------------------------------------------
def _checked(job: Job) -> Report:
    on, bound = origins.rung(job.origin), _bound(job)
    if on is not None and not job.reference:
        ladder, rung = on
        library = "torch" if job.kind == "triton" or _has_bf16(ladder.op) else ""
        return check(ladder.op, _solution(job, bound, rung.clear), device="sim", arrays=library)
    if not job.reference:
        raise ArgumentError(
            "a check needs a reference",
            next="write a formula of the inputs into the field Reference, e.g. 2 * x + y",
        )
    outputs = [a.name for a in job.arrays if a.out]
    if not outputs:
        raise ArgumentError("no array of the form is marked as a result", next="tick `out`")
    arrays = _arrays(job)
    used = formula.names(job.reference)
    unknown = [n for n in used if n not in arrays and n not in job.sizes]
    if unknown:
        raise ArgumentError(
            f"the reference uses '{unknown[0]}', which is not in the form",
            allowed=", ".join([*arrays, *job.sizes]),
        )

    shapes = [tuple(arrays[n].shape) for n in outputs]

    def reference(**values: Any) -> Any:
        plain = {n: np.asarray(v) for n, v in values.items()}
        right = formula.evaluate(job.reference, {**job.sizes, **plain})
        # The sum of an array is a scalar; the kernel's result is an array of one element.
        lone = len(shapes) == 1 and np.size(right) == math.prod(shapes[0])
        return np.reshape(right, shapes[0]) if lone else right

    def kernel(*values: Any) -> None:
        given = dict(zip(arrays, values, strict=True))
        for name, start in _starts(job).items():
            given[name][...] = start
        bound.run({**given, **job.sizes})

    kernel.__name__ = job.launches[0].partition("<<<")[0] if job.launches else "run"
    inputs = [n for n in used if n in arrays]
    _signed(reference, inputs)
    _signed(kernel, list(arrays))
    ranges = {a.name: _range(a.fill, job) for a in job.arrays if a.dtype.integer and ".." in a.fill}
    return check(kernel, *arrays.values(), out=outputs, reference=reference, ranges=ranges)


def _starts(job: Job) -> dict[str, float]:
    """Results that a kernel adds to: what they hold before each run."""
    return {a.name: float(a.fill == "ones") for a in job.arrays
            if a.out and a.fill in ("zeros", "ones")}  # fmt: skip


def _signed(function: Callable[..., Any], names: list[str]) -> None:
    """Gives a function parameters of these names: `check` binds arrays by them."""
    kind = python_inspect.Parameter.POSITIONAL_OR_KEYWORD
    parameters = [python_inspect.Parameter(n, kind) for n in names]
    function.__signature__ = python_inspect.Signature(parameters)  # type: ignore[attr-defined]


def _range(fill: str, job: Job) -> tuple[int, int]:
    low, _, high = fill.partition("..")
    return whole(low, job.scope), whole(high, job.scope)


def _has_bf16(op: Op) -> bool:
    return any(s.dtype.name == "bf16" for s in (*op.inputs, *op.outputs))


def _solution(job: Job, bound: Bound, clear: tuple[str, ...]) -> Callable[..., None]:
    """The job as a solution of an operation: its own arrays are scratch."""

    def kernel(**values: Any) -> None:
        sizes = {n: v for n, v in values.items() if isinstance(v, int)}
        own = tuple(a for a in job.arrays if a.name not in values)
        scratch = replace(job, sizes={**job.sizes, **sizes}, arrays=own).make()
        for name in clear:
            array = {**values, **scratch}[name]
            array[...] = 0
        bound.run({**scratch, **job.sizes, **values})

    return kernel


# ---- profile -------------------------------------------------------------------------------------
def _profiles(job: Job, limit: float) -> list[Any]:
    bound, arrays = _bound(job), _arrays(job)
    values = {**arrays, **job.sizes}
    if isinstance(bound, BoundCuda):
        return [
            profile(launch, *args, device=job.device, time_limit=limit,
                    block=min(job.block, math.prod(launch.config.grid) - 1),  # not all have as many
                    executions=EXECUTIONS)
            for launch, args in bound.calls(values)
        ]  # fmt: skip
    model = select(job.device).model.key
    with recording(Recording(model, block=job.block, executions=EXECUTIONS)) as recorder:
        bound.run(values, limit)
    return recorder.profiles


def _record(p: Profile) -> dict[str, Any]:
    """The profile for comparisons, without samples."""
    return {**p.to_dict(), "samples": []}


# ---- code and arrays -----------------------------------------------------------------------------
def _code(job: Job, bound: BoundCuda) -> Answer:
    ptx = bound.module.ptx
    module = parse(ptx.text, ptx.sources)
    rows: list[list[Any]] = []
    for function in module.functions.values():
        if not function.body:
            continue
        rows.append([0, f"{'.entry' if function.is_entry else '.func'} {function.name}", 0, -1])
        for one in function.body:
            if isinstance(one, Instruction):
                own = one.loc.own if one.loc is not None else None
                line = own.line if own is not None and view.own(own.file) else 0
                guard = f"@{'!' * one.guard_negated}{one.guard} " if one.guard else ""
                rows.append([one.ptx_line, guard + " ".join(one.text.split()), line, -1])
            else:
                rows.append([0, f"{one.name}:", 0, -1])
    return {"ptx": rows, **_sass(job)}


def _sass(job: Job) -> Answer:
    arch = select(job.device).model.machine
    try:
        functions = sass.sass(job.source, job.file, arch, job.include)
    except Error as error:
        return {"sass": [], "sass_note": str(error)}
    rows: list[list[Any]] = []
    for name, code in functions.items():
        rows.append([0, name, 0, -1])
        rows += [[i, text, line, -1] for i, (line, text) in enumerate(code, 1)]
    return {
        "sass": rows,
        "sass_note": "" if rows else "no machine code: is a template instantiated?",
    }


def _shown(job: Job, name: str, array: Any, before: np.ndarray[Any, Any]) -> Answer:
    """An array for the page: its first elements and a summary."""
    spec = next(a for a in job.arrays if a.name == name)
    bits = buffers.bits(array)
    numbers = spec.dtype.decode(bits)
    flat = numbers.reshape(-1)
    finite = flat[np.isfinite(flat)] if spec.dtype.floating else flat
    summary = {"min": finite.min().item(), "max": finite.max().item()} if finite.size else {}
    changed = int(np.count_nonzero(bits.view(np.uint8) != before.view(np.uint8)))
    wide = numbers.reshape(-1, bits.shape[-1]) if bits.ndim > 1 and bits.size else None
    rows = wide[:SHOWN, :SHOWN] if wide is not None else _in_rows(flat)
    return {
        "name": name,
        "dtype": spec.dtype.name,
        "shape": list(bits.shape),
        "rows": [[_text(v) for v in row.tolist()] for row in rows],
        "changed": changed > 0,
        "out": spec.out,
        "nans": int(np.isnan(flat).sum()) if spec.dtype.floating else 0,
        **{k: _text(v) for k, v in summary.items()},
    }


def _in_rows(flat: np.ndarray[Any, Any]) -> list[np.ndarray[Any, Any]]:
    first = flat[: SHOWN * SHOWN]
    return [first[i : i + SHOWN] for i in range(0, len(first), SHOWN)]


def _text(value: Any) -> str:
    return f"{value:.5g}" if isinstance(value, float) else str(value)
