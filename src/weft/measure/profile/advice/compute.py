"""Advice on arithmetic: divergence, precision, tensor cores, expensive operations."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping

from weft.measure.profile import floor
from weft.measure.profile.advice.rule import Rule, RuleContext, at
from weft.measure.profile.work import expands, is_multiply_add, result
from weft.ptx.isa.columns import ResultForm
from weft.values.analysis import Advice

_LANES = 0.75
"""Fraction of active lanes below which divergence is reported."""
_SHARE = 0.1
_FED = 4.0
"""Loads per element above which multiply-adds look like a matrix product, not a polynomial."""
_FRAGMENTS = 0.25
"""Fraction of loads that remains with fragments: one load feeds 16 x 8 results."""
_MATMUL = 16.0
"""Multiply-adds per accessed element above which tensor cores may help."""

CHEAPER = {
    ResultForm.QUOTIENT: "multiply with a reciprocal that is computed once, or use __fdividef / "
    "-use_fast_math",
    ResultForm.REMAINDER: "use powers of two (i & (n - 1)), or count along instead of dividing",
    ResultForm.ROOT: "use rsqrtf and a multiplication, or compare squares",
    ResultForm.RECIPROCAL: "use __frcp_rn only where the last bit counts; __fdividef and rsqrtf "
    "are one step",
}
_FUNCTIONS = "share sub-expressions, use exp2f with a factor folded in, or a polynomial"


def divergence(f: RuleContext) -> Iterator[Advice]:
    """Lanes that are inactive while others of their warp take another branch."""
    split = [line for line in f.p.lines if line.diverged]
    executed = f.p.totals["sim:ptx__inst_executed.sum"]
    lanes = f.p.totals["sim:ptx__thread_inst_executed.sum"]
    # Few divergent branches cost little; the active lanes tell how much.
    if not split or lanes >= _LANES * 32 * executed:
        return
    line = max(split, key=lambda x: x.diverged)
    part = 1 - lanes / (32 * executed)
    less = {u.name: 1 - part for u in f.units if u.measure in ("operations", "instructions")}
    yield Advice(
        "divergence",
        f"{line.diverged:,} of {line.branches:,} branches send a warp two ways; "
        f"{lanes / executed:.1f} of 32 lanes are at work on the average",
        "let whole warps decide alike: branch on threadIdx.x / 32, sort or compact the work, or "
        "compute both sides where they are short",
        floor.gain(f.units, less),
        *at(line),
    )


def tensor_cores(f: RuleContext) -> Iterator[Advice]:
    """A matrix product on plain FMA instructions."""
    fused = [i for i in f.p.instructions if is_multiply_add(i.opcode) and i.line is not None]
    total = sum(2 * i.threads_on for i in fused)
    elements = floor.compulsory_bytes(f.p) / 4
    kind = f.bound if f.bound in ("fp32", "fp16", "fp64") else "fp32"
    inputs = {"fp32": "tf32", "fp16": "f16", "fp64": "f64"}[kind]
    if inputs not in f.gpu.tensor or not elements or total < 2 * _MATMUL * elements:
        return
    fed = sum(a.bytes for i in f.p.instructions for a in i.accesses if a.kind == "load")
    if fed < _FED * 4 * elements or any(u.startswith("tensor") for u in floor.work(f.p)):
        return
    peak = floor.ceilings(f.gpu)
    ratio = peak[kind] / peak[f"tensor.{inputs}"]
    less = {kind: ratio, "instructions": ratio, "L1 and shared memory": _FRAGMENTS}
    hot = max(fused, key=lambda i: i.threads_on)
    assert hot.line is not None
    place = hot.line.own
    yield Advice(
        "tensor cores unused",
        f"{total:,} operations in multiply-adds for {elements:,.0f} elements: a product of "
        "matrices, computed without tensor cores",
        f"use mma or wmma with {inputs} inputs ({f.gpu.tensor[inputs]:g} against "
        f"{peak[kind] / 1e12:.3g} T operations a second), in f16 or bf16 where the range allows",
        floor.gain(f.units, less),
        place.file,
        place.line,
    )


def precision(f: RuleContext) -> Iterator[Advice]:
    """Double precision on a GPU with few fp64 units."""
    if f.bound != "fp64":
        return
    doubles = [line for line in f.p.lines if line.work.get("fp64")]
    if not doubles:
        return
    line = max(doubles, key=lambda x: x.work["fp64"])
    peak = floor.ceilings(f.gpu)
    ratio = peak["fp64"] / peak["fp32"]
    yield Advice(
        "low precision",
        f"{f.p.totals['sim:ptx__ops_fp64.sum']:,.0f} operations in double precision, of which "
        f"{f.gpu.name} does one for {1 / ratio:.0f} in single precision",
        "compute in f32 (1.0f, not 1.0: one double makes the whole expression double)",
        floor.gain(f.units, {"fp64": ratio}),
        *at(line),
    )


def mathematics(f: RuleContext) -> Iterator[Advice]:
    """Divisions, roots and special functions in hot lines."""
    units = {u.name: u for u in f.units}
    for line in f.p.lines:
        members = set(line.instructions)
        slow: Counter[str] = Counter()
        extra = special = 0.0
        for i in (i for i in f.p.instructions if i.index in members):
            times = expands(i.opcode)
            if times > 1:
                slow[i.opcode] += i.executions
                extra += i.executions * (times - 1)
            elif i.work[0] == "special":
                slow["special"] += i.executions
                special += 32.0 * i.executions
        if not slow:
            continue
        name = slow.most_common(1)[0][0]
        less = {
            u: 1 - _part(units, u, n)
            for u, n in (("instructions", extra), ("special", special / 2))
        }
        # Expanded divisions also occupy the arithmetic pipes.
        less |= {u: less["instructions"] for u in ("fp32", "fp64", "integer") if extra}
        if max(1 - n for n in less.values()) < _SHARE:
            continue
        counts = ", ".join(f"{n:,} of {o}" for o, n in slow.most_common())
        yield Advice(
            "better mathematics",
            f"slow operations of warps: {counts}",
            _FUNCTIONS if name == "special" else CHEAPER[result(name)],
            floor.gain(f.units, less),
            *at(line),
        )


def _part(units: Mapping[str, floor.GpuUnit], name: str, work: float) -> float:
    return min(0.95, work / units[name].work) if name in units and units[name].work else 0.0


RULES: Mapping[str, Rule] = {
    "divergence": divergence,
    "tensor cores unused": tensor_cores,
    "low precision": precision,
    "better mathematics": mathematics,
}
