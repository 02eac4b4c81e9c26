"""The facts that rules of exercises are about: counters, kinds of instructions, shares of threads.

    load sectors per request <= 4     a counter, as in the `expect` lines of a ladder's rung
    shuffles >= 5                     instructions of a kind, counted once for each warp
    writing threads >= 256            threads whose results stay: `share.py`
    lanes per shared load >= 8        how many threads of a warp work at a time
    child launches >= 64              by threads: each one counts
    occupancy >= 50                   in percent of an SM's warps; the least of all launches
    shared bytes <= 4096              of a block; the most of all launches
    stages >= 3                       mbarriers of a block that copies report to; the most as well
    stores outside of templates = 0   executed by warps; `templates.py` reads the source

All of them belong to the first case of the exercise, or to a run of the whole program.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from weft.climbing import counters
from weft.learn import templates
from weft.measure import Profile
from weft.measure.profile import work
from weft.measure.profile.cliffs import fit
from weft.ptx.isa.columns import ResultForm
from weft.values.profile import Instruction

Kind = Callable[[Instruction], bool]


def _accesses(space: str, *kinds: str) -> Kind:
    return lambda i: any(a.space == space and (not kinds or a.kind in kinds) for a in i.accesses)


KINDS: Mapping[str, Kind] = {
    "shared loads": _accesses("shared", "load", "matrix load"),
    "shared stores": _accesses("shared", "store", "matrix store", "copy"),
    "shared atomics": _accesses("shared", "atomic", "reduction"),
    "global atomics": _accesses("global", "atomic", "reduction"),
    "global loads": _accesses("global", "load"),
    "global stores": _accesses("global", "store"),
    "tensor copies": lambda i: work.is_tensor_copy(i.opcode),
    "warpgroup products": lambda i: work.is_warpgroup_product(i.opcode),
    "cluster loads": _accesses("cluster", "load"),
    "tensor core instructions": lambda i: i.work[0].startswith("tensor"),
    "shuffles": lambda i: work.result(i.opcode) is ResultForm.SHUFFLED,
    "barriers": lambda i: work.joins_block(i.opcode),
    "constant loads": lambda i: work.reads_constant(i.opcode),
    "texture fetches": lambda i: work.fetches_texture(i.opcode),
}
"""Kinds of instructions that exercises teach."""
THREADS: Mapping[str, Kind] = {
    "child launches": lambda i: "LaunchDevice" in i.text,
    # One thread of each block reports its arrival.
    "grid barriers": lambda i: work.is_atomic(i.opcode) and "grid_group4sync" in _callers(i),
}
"""Kinds of instructions that are counted once for each thread."""
LANES = "lanes per shared load"
TEMPLATES = "stores outside of templates"
OCCUPANCY, SHARED, STAGES = "occupancy", "shared bytes", "stages"
SHARES = (
    "launches", "writing launches", "writing threads", "writing blocks", "reading threads",
    "reading blocks",
)  # fmt: skip
"""Facts of `share.py`; a profile gives the others."""
NAMES = (
    *counters.FACTS, "branch divergence", "instructions", *KINDS, *THREADS, LANES, TEMPLATES,
    OCCUPANCY, SHARED, STAGES, *SHARES,
)  # fmt: skip
"""Every fact that a rule may name."""
PROGRAM = tuple(
    name
    for name in NAMES
    if name == "launches" or not (name in SHARES or name.endswith(("per result", "per input")))
)
"""The facts of whole programs, whose results have no number."""
_LANES = counters.Fact(lambda a: a.space == "shared" and a.kind == "load", "threads", "requests")


def counted(profiles: list[Profile], results: int, path: Path) -> dict[str, float]:
    """The facts that a profile gives; `results` is the number of outputs, or inputs of a fold."""
    every = [i for p in profiles for i in p.instructions]
    facts = counters.facts(profiles, results)
    for name, kind in KINDS.items():
        facts[name] = float(sum(i.executions for i in every if kind(i)))
    for name, kind in THREADS.items():
        facts[name] = float(sum(i.threads_on for i in every if kind(i)))
    facts[LANES] = _LANES.value(a for i in every for a in i.accesses)
    shapes = [(p.launch, p.model) for p in profiles]
    facts[OCCUPANCY] = min((100 * fit(*shape).fraction for shape in shapes), default=0.0)
    facts[SHARED] = max((float(s.static_shared + s.dynamic_shared) for s, _ in shapes), default=0.0)
    facts[STAGES] = max((float(len(p.stages.stages)) for p in profiles if p.stages), default=0.0)
    if path.suffix == ".cu":
        inside = templates.lines(path.read_text(encoding="utf-8"))
        facts[TEMPLATES] = float(
            sum(i.executions for i in every if KINDS["global stores"](i) and _line(i) not in inside)
        )
    return facts


def of_program(profiles: list[Profile], launches: Iterable[int], path: Path) -> dict[str, float]:
    """The facts of a whole program; `launches` are those of each kernel, also by kernels."""
    return {**counted(profiles, 1, path), "launches": float(sum(launches))}


def shown(value: float) -> str:
    """A fact as grades show it."""
    return f"{value:,.0f}" if value >= 1000 else f"{value:.4g}"


def _callers(ins: Instruction) -> str:
    """The functions, as the compiler names them, that an instruction was inlined from."""
    names, line = list[str](), ins.line
    while line is not None:
        names.append(line.function)
        line = line.inlined_at
    return " ".join(names)


def _line(ins: Instruction) -> int:
    """The source line of the user that an instruction comes from, before inlining."""
    return ins.line.own.line if ins.line is not None else 0
