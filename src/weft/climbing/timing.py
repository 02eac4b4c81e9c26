"""Times rungs and peers on a GPU and compares them with the hardware limit.

The memory limit is measured in the same run: a copy (by PyTorch or by a kernel, whichever is
faster) or a kernel that only reads. The arithmetic limit is that of the GPU model.
"""

from __future__ import annotations

import importlib
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from weft import kernels
from weft.climbing.rung import Rung
from weft.device.models import GpuModel
from weft.device.selection import Selection
from weft.errors import ArgumentError, CheckFailed, MissingDependency
from weft.installation import pip_install
from weft.measure import dtypes
from weft.measure.bench.bench import Contender, bench, ceiling, interval, tflops
from weft.measure.check import input_data, tolerance
from weft.measure.expressions import number
from weft.measure.op import Case, Op, call
from weft.progress import Notify
from weft.values.climb import Time
from weft.values.timing import Timing

Run = Callable[..., Any]
"""Computes the operation on arrays and sizes by name: a `Runner` or a user's solution."""
BUDGET_S = 0.25
FLUSH = 3
"""All input sets together are this many times the L2 size, so that none stays cached."""

READ = r"""
__global__ void __launch_bounds__(512) read(const float4* x, float* y, size_t n) {
    float sum = 0;
    size_t step = size_t(gridDim.x) * 512;
    size_t i = size_t(blockIdx.x) * 512 + threadIdx.x;
    for (; i + 7 * step < n; i += 8 * step) {
        float4 v[8];
#pragma unroll
        for (int k = 0; k < 8; ++k) v[k] = __ldcs(x + i + k * step);
#pragma unroll
        for (int k = 0; k < 8; ++k) sum += (v[k].x + v[k].y) + (v[k].z + v[k].w);
    }
    for (; i < n; i += step) sum += x[i].x;
    if (sum == 1.2345f) *y = sum;
}
"""
"""A kernel that only reads: it measures the read bandwidth."""

COPY = r"""
__global__ void __launch_bounds__(256) copy(const float4* x, float4* y, size_t n) {
    size_t i = size_t(blockIdx.x) * 256 + threadIdx.x;
    if (i < n) __stcs(y + i, __ldcs(x + i));
}
"""
"""The fastest copy kernel in `benchmarks/records/ladder_tuning.jsonl`."""


@dataclass
class TimingResults:
    """Times by rung and by peer, and the limits."""

    rungs: dict[int, tuple[Time, ...]] = field(default_factory=dict)
    peers: dict[str, tuple[Time, ...]] = field(default_factory=dict)
    limits: dict[str, str] = field(default_factory=dict)
    machine: dict[str, Any] = field(default_factory=dict)


def time_rungs(
    op: Op, rungs: Sequence[tuple[Rung, Run]], model: GpuModel, progress: Notify
) -> TimingResults:
    """Time all rungs and peers on every bench case."""
    try:
        torch = importlib.import_module("torch")
    except ModuleNotFoundError as error:
        raise MissingDependency(
            "ladders are timed beside PyTorch", next=pip_install("torch")
        ) from error
    results = TimingResults()
    for case in op.bench:
        progress(f"{op.name} {case}")
        with _full_precision(torch):
            _on_case(results, op, case, rungs, model, torch)
    for rung, runner in rungs:
        if rung.bench:
            progress(f"{rung.title} on its own size")
            _alone(results, op, rung, runner, model, torch)
    return results


@contextmanager
def _full_precision(torch: Any) -> Iterator[None]:
    """Peers convolve float32 in float32: PyTorch's default is TF32."""
    cudnn = torch.backends.cudnn
    before = cudnn.allow_tf32
    cudnn.allow_tf32 = False
    try:
        yield
    finally:
        cudnn.allow_tf32 = before


def _on_case(
    results: TimingResults,
    op: Op,
    case: Case,
    rungs: Sequence[tuple[Rung, Run]],
    model: GpuModel,
    torch: Any,
) -> None:
    moved, work = _amounts(op, case)
    count = max(1, -(-FLUSH * model.l2 // max(1, int(moved)))) if moved < FLUSH * model.l2 else 1
    sets = [_arrays(op, case, torch, seed) for seed in range(count)]
    contenders: dict[str, Contender] = {}
    for rung, runner in rungs:
        if not rung.bench:
            contenders[f"rung {rung.number}"] = Contender(_of(runner, sets, case), rung.precision)
    for text in op.peers:
        contenders[text] = Contender(_peer(text, sets, torch, op), op.inputs[0].dtype.name)
    # A small copy would fit the L2 cache and overestimate the limit.
    probed = max(moved, FLUSH * model.l2)
    kind = bound(op, model, case)
    probes = _probes(kind, probed, torch) if moved else {}
    contenders |= probes
    answer = _answer(op, sets[0], torch)
    _verify(op, case, rungs, sets[0], answer)
    here = Selection(number=0, key=model.key)
    result = bench(contenders, sets=count, device=here, budget=BUDGET_S, bytes=moved, flops=work)
    _verify(op, case, rungs, sets[0], answer)
    most = tflops(model, op.inputs[0].dtype.name)
    computing = work / (most * 1e12)
    floor = min((result[n].seconds * moved / probed for n in probes), default=computing)
    named = {t.name: t for t in result.timings}
    best = min((named[p].seconds for p in op.peers), default=0.0)

    # Rungs get arrays for their outputs, while peers allocate them.
    outputs = sum(sets[0][s.name].nbytes for s in op.outputs)

    def taken(t: Timing, outside: int = 0) -> Time:
        ratios = (floor / t.seconds, best / t.seconds)
        memory = None if t.memory is None else t.memory + outside
        details = (t.how, *ratios, t.samples, t.notes, memory)
        return Time(repr(case), t.seconds, t.low, t.high, *details)

    for rung, _ in rungs:
        if f"rung {rung.number}" in named:
            old = results.rungs.get(rung.number, ())
            results.rungs[rung.number] = (*old, taken(named[f"rung {rung.number}"], outputs))
    for text in op.peers:
        results.peers[text] = (*results.peers.get(text, ()), taken(named[text]))
    what = f"{moved / floor / 1e12:.2f} TB/s" if probes else f"{most:.1f} TFLOP/s"
    results.limits[repr(case)] = f"{kind}: {what}" if floor else "not known"
    results.machine.update(result.machine)


def _amounts(op: Op, case: Case) -> tuple[float, float]:
    """(bytes, operations) of a case."""
    return number(op.bytes or "0", case.sizes), number(op.flops or "0", case.sizes)


def _arrays(op: Op, case: Case, torch: Any, seed: int) -> dict[str, Any]:
    """Random inputs and uninitialised outputs; inputs without a `fill` are made on the GPU."""
    torch.manual_seed(seed + 1)
    rng = np.random.default_rng(seed)
    out = {}
    for spec in op.inputs:
        kind, shape = getattr(torch, spec.dtype.torch), spec.shape(case)
        if spec.name in op.fill:
            made = op.data(spec, case, rng, input_data.random)
            out[spec.name] = torch.from_numpy(made).cuda()
        else:
            out[spec.name] = torch.randn(shape, device="cuda").to(kind)
    for spec in op.outputs:
        kind = getattr(torch, spec.dtype.torch)
        out[spec.name] = torch.empty(spec.shape(case), dtype=kind, device="cuda")
    return out


def _of(runner: Run, sets: Sequence[Mapping[str, Any]], case: Case) -> Callable[[int], Any]:
    return lambda i: runner(**sets[i], **case.sizes)


def _peer(text: str, sets: Sequence[Mapping[str, Any]], torch: Any, op: Op) -> Callable[[int], Any]:
    expression = text.removeprefix("compile: ")
    names = [s.name for s in op.inputs]
    # A peer is the operation author's code, like the reference: eval gives it no new rights.
    function = eval(f"lambda {', '.join(names)}: {expression}", {"torch": torch})
    if expression != text:
        torch.compiler.reset()  # otherwise the second size would compile for dynamic shapes
        function = torch.compile(function, dynamic=False)

    def run(i: int) -> Any:
        return function(*(sets[i][n] for n in names))

    try:
        run(0)
    except Exception as error:  # a peer is user code
        raise ArgumentError(
            "a peer raises an error",
            where=op.name,
            got=f"{text}: {type(error).__name__}: {str(error).partition(chr(10))[0]}",
        ) from error
    return run


def bound(op: Op, model: GpuModel, case: Case) -> str:
    """The bound of a case: few operations on many bytes are a read, whatever bounds the others."""
    _, by = ceiling(model, *_amounts(op, case), op.inputs[0].dtype.name)
    return "read" if op.ceiling == "compute" and by == "memory" else op.ceiling


def _probes(kind: str, moved: float, torch: Any) -> dict[str, Contender]:
    """Contenders that measure the memory limit with as many bytes as the operation."""
    if kind == "compute":
        return {}
    # Half of the bytes are read and half are written.
    source = torch.empty(int(moved) // 8, dtype=torch.float32, device="cuda").normal_()
    target = torch.empty_like(source)
    if kind == "copy":
        copy = kernels.cuda(COPY, name="copy.cu").kernel("copy")[-(-source.numel() // 1024), 256]
        return {
            "a copy": Contender(lambda: copy(source, target, source.numel() // 4), computes=False),
            # Slower inside of a graph, which would lower the limit.
            "PyTorch's copy": Contender(lambda: target.copy_(source), graph=False, computes=False),
        }
    sms = torch.cuda.get_device_properties(0).multi_processor_count
    read = kernels.cuda(READ, name="read.cu").kernel("read")[4 * sms, 512]
    # A read probe moves all bytes one way.
    whole = torch.cat([source, source])
    return {"a read": Contender(lambda: read(whole, target, whole.numel() // 4), computes=False)}


def _answer(op: Op, arrays: Mapping[str, Any], torch: Any) -> Any:
    """The expected result: the op's own, the first peer in float64, or the reference."""
    names = [s.name for s in op.inputs]
    if op.answer is None and not op.peers:
        plain = {
            n: _plain(arrays[n], s.dtype.floating) for n, s in zip(names, op.inputs, strict=True)
        }
        answer = call(op.reference, plain, names)
        first = answer[0] if isinstance(answer, tuple | list) else answer
        return torch.as_tensor(np.asarray(first), device="cuda")
    wide = [
        arrays[n].double() if s.dtype.floating else arrays[n]
        for n, s in zip(names, op.inputs, strict=True)
    ]
    if op.answer is not None:
        return op.answer(*wide)
    function = eval(
        f"lambda {', '.join(names)}: {op.peers[0].removeprefix('compile: ')}", {"torch": torch}
    )
    return function(*wide)


def _plain(tensor: Any, floating: bool) -> Any:
    return (tensor.double() if floating else tensor).cpu().numpy()


def _verify(
    op: Op, case: Case, rungs: Sequence[tuple[Rung, Run]], arrays: Mapping[str, Any], answer: Any
) -> None:
    """Check every rung at full size against PyTorch in float64."""
    spec = op.outputs[0]
    terms = op.terms(case) or max(case.sizes.values())
    for rung, runner in rungs:
        if rung.bench:
            continue
        # A rung that writes nothing must not pass with the previous rung's result.
        arrays[spec.name].fill_(1)
        runner(**arrays, **case.sizes)
        got = arrays[spec.name].double().reshape(answer.shape)
        if not spec.dtype.floating:
            wrong = got != answer
        else:
            wide = dtypes.find(op.accumulate or ("f64" if spec.dtype.name == "f64" else "f32"))
            # Probes would take too long at full size: the RMS approximates the sensitivity.
            size = answer.abs().clamp_min(float(answer.square().mean().sqrt()))
            most = spec.dtype.roundoff * answer.abs() + size * (
                tolerance.DEVIATIONS * wide.roundoff * terms**0.5
            )
            wrong = ~((got - answer).abs() <= most)
        if bool(wrong.any()):
            raise CheckFailed(
                f"{rung.title} is wrong at full size",
                where=repr(case),
                got=f"{int(wrong.sum())} of {wrong.numel()} elements",
            )


def _alone(
    results: TimingResults, op: Op, rung: Rung, runner: Run, model: GpuModel, torch: Any
) -> None:
    """Time a slow rung on its own smaller size, and compare it with that size's limit."""
    case = Case.of(rung.bench)
    moved, work = _amounts(op, case)
    floor, _ = ceiling(model, moved, work, op.inputs[0].dtype.name)
    if rung.arrays == "numpy":
        arrays = {n: a.cpu().numpy() for n, a in _arrays(op, case, torch, 0).items()}
        samples = []
        for _ in range(5):
            start = time.perf_counter()
            runner(**arrays, **case.sizes)
            samples.append(time.perf_counter() - start)
        low, middle, high = interval(samples)
        how = "5 calls, host clock, on the CPU"
    else:
        timing = bench({"it": _of(runner, [_arrays(op, case, torch, 0)], case)}, budget=BUDGET_S)[
            "it"
        ]
        low, middle, high, how = timing.low, timing.seconds, timing.high, timing.how
    results.rungs[rung.number] = (Time(repr(case), middle, low, high, how, floor / middle),)
