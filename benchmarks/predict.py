"""Judges predicted times by the times of the ladders that were recorded on an H200.

    python benchmarks/predict.py --count [LADDER ...]   counts what is not in the record yet
    python benchmarks/predict.py --count --kept FOLDER  keeps counters there, makes rows anew of it
    python benchmarks/predict.py --fit                  fits the factors to a third of the rungs
    python benchmarks/predict.py                        prints the errors on the others

Counting runs the first blocks of each launch at the recorded size on the simulated GPU, and writes
what the launch asks of each unit to records/predict.jsonl. Large inputs repeat one block of random
numbers (integers) or end in zeros (floats): no rung's work depends on them.
"""

from __future__ import annotations

import argparse
import functools
import inspect
import json
import random
import sys
from collections.abc import Iterator, Sequence
from dataclasses import astuple, replace
from pathlib import Path
from typing import Any

import kept
import numpy as np

from weft.climbing import ladder as ladders
from weft.climbing.climb import prepare, zeros
from weft.climbing.ladder import Ladder
from weft.climbing.rung import Rung, Runner
from weft.device import models
from weft.device.sim.run.draft import drafts
from weft.errors import Error
from weft.measure.check import buffers, input_data
from weft.measure.op import ArraySpec, Case, Op
from weft.measure.profile.prediction import judge
from weft.measure.profile.prediction.constants import FITTED, Factors
from weft.measure.profile.prediction.demand import SampledLaunch, demand_of_sample
from weft.measure.profile.sampling.blocks import sampling
from weft.values.profile import Array

RECORD = Path(__file__).parent / "records" / "predict.jsonl"
MODEL = models.get("h200")
PIECE = 1 << 20
"""Elements of an input that are random."""
WARM = 30e6
"""Bytes that L2 keeps from one launch to the next (docs/profile.md)."""
ROUNDS, SEED = 1500, 1
PRIOR = Factors(
    dram=0.9,
    l2=0.85,
    copies=2.0,
    lsu=0.9,
    tags=1.0,
    atomics=1.0,
    issue=0.95,
    others=0.65,
    pipes=0.95,
    integer=1.5,
    warpgroup=0.75,
    mma=0.6,
    latency=1.0,
    block=400.0,
    fetch=2.5,
    sharpness=4.0,
    hiding=2.0,
    meeting=2.0,
    launch=2e-6,
    early=1.7e-6,
)
"""The start of the fit: the rates of kernels that use one unit alone."""
FREE = (
    "tags",
    "issue",
    "others",
    "integer",
    "warpgroup",
    "mma",
    "latency",
    "block",
    "sharpness",
    "hiding",
)
"""The factors that are fitted; the others were measured (records/memory_levels.jsonl)."""
STIFFNESS = 0.03
"""The weight of a factor's distance from where it began: few rungs are bound by rare units."""


# ---- counting ------------------------------------------------------------------------------------
def jobs(names: Sequence[str]) -> Iterator[tuple[Ladder, Rung, str, float]]:
    """(ladder, rung, case, measured seconds) of all recorded times of kernels."""
    for name in names or ladders.names():
        source = ladders.find(name)
        file = source.path / "recorded.json"
        if not file.is_file():
            continue
        recorded = json.loads(file.read_text("utf-8"))["rungs"]
        for rung in source.rungs:
            if rung.language != "Python":
                for case, row in recorded.get(rung.title, {}).items():
                    yield source, rung, case, row[0]


def count(names: Sequence[str], folder: Path | None) -> None:
    """Write the rows that the record lacks, and those whose counters are in the folder."""
    have = {(r["ladder"], r["rung"], r["case"]) for r in rows() if is_current(r)}
    for source, rung, case, measured in jobs(names):
        name = source.path.name
        whole = f"{name}/{rung.title}/{case}"
        anew = folder is not None and kept.path(folder, whole).is_file()
        if (name, rung.title, case) in have and not anew:
            continue
        try:
            now = functools.partial(counted, source.op, rung, case)
            launches = kept.launches(folder, whole, now)
        except Error as error:  # some need all blocks of their grid
            print(f"{name} {rung.title} {case}: {error}", file=sys.stderr)
            continue
        made = row(name, rung.title, case, rung.language, measured, launches)
        write(RECORD, made)
        print(name, rung.title, case, f"{judge.predicted(made) / measured:.2f}")


def write(record: Path, made: dict[str, Any]) -> None:
    """Put a row in place of the one of the same name in a record, or at its end.

    A row that was in view when the model was shaped stays one.
    """
    lines = record.read_text("utf-8").splitlines() if record.is_file() else []
    before = [json.loads(line) for line in lines]
    at = next((n for n, one in enumerate(before) if _same(one, made)), len(lines))
    seen = [one["blind"] for one in before[at : at + 1] if "blind" in one]
    lines[at : at + 1] = [json.dumps(made | ({"blind": seen[0]} if seen else {}))]
    record.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")


def _same(a: dict[str, Any], b: dict[str, Any]) -> bool:
    """True if both are of one call or rung and size; what could not be counted has no size."""
    both = [name for name in ("ladder", "rung", "case") if name in a and name in b]
    return all(a[name] == b[name] for name in both)


def is_current(made: dict[str, Any]) -> bool:
    """Return False for a row that was counted for an earlier model, without its newest counter."""
    return all("code" in launch for launch in made["launches"])


def touched(launches: Sequence[SampledLaunch]) -> float:
    """The bytes that launches read or write."""
    return sum(_touched(one, a) for one in launches for a in one.profile.arrays)


def _touched(one: SampledLaunch, a: Array) -> float:
    return min(a.touched * one.profile.launch.blocks / one.blocks, a.nbytes)


def counted(op: Op, rung: Rung, case_text: str) -> list[SampledLaunch]:
    """The launches of a rung at a recorded size, counted on their first blocks."""
    pairs = (part.partition("=") for part in case_text.partition(" (")[0].split(","))
    case = Case.of({name.strip(): int(value) for name, _, value in pairs})
    prepare(rung, "sim")
    runner = Runner(rung, op, sms=MODEL.sms, empty=zeros)
    rng = np.random.default_rng(0)
    arrays: dict[str, Any] = {s.name: _data(op, s, case, rng) for s in op.inputs}
    arrays |= {s.name: np.zeros(s.shape(case), s.dtype.numpy) for s in op.outputs}
    if rung.arrays == "torch":
        every = (*op.inputs, *op.outputs)
        library = buffers.torch("cpu")
        arrays = {s.name: buffers.copied(arrays[s.name], s.dtype, library) for s in every}
    with sampling(MODEL) as found, drafts():
        runner(**arrays, **case.sizes)
    return found.launches


def _data(op: Op, spec: ArraySpec, case: Case, rng: np.random.Generator) -> Any:
    shape = spec.shape(case)
    if np.prod(shape) <= PIECE:
        return op.data(spec, case, rng, input_data.random)
    if spec.name in op.fill:
        fill = op.fill[spec.name]
        wanted = inspect.signature(fill).parameters
        more = {n: v for n, v in case.sizes.items() if n in wanted}
        piece = np.asarray(fill(rng, (PIECE,), **more)).reshape(-1)
    else:
        piece = input_data.random(rng, (PIECE,), spec.dtype, spec.bounds(case))
    if spec.dtype.integer:
        return np.resize(piece, shape)
    out = np.zeros(shape, spec.dtype.numpy)
    out.reshape(-1)[: len(piece)] = piece
    return out


def row(
    ladder: str,
    rung: str,
    case: str,
    language: str,
    measured: float,
    found: list[SampledLaunch],
    *,
    cached: bool = False,
) -> dict[str, Any]:
    """A row of the record. What a launch leaves in L2 is there for the next one; `cached`: all is.

    The model's shape was found with some rows in view; `blind` ones were counted after that.
    """
    launches, before = [], dict[str, float]()
    for one in found:
        moved = {a.name: _touched(one, a) for a in one.profile.arrays}
        fits = sum(before.values()) + sum(moved.values()) < WARM
        warm = sum(min(n, before.get(name, 0.0)) for name, n in moved.items()) if fits else 0.0
        warm = sum(moved.values()) if cached else warm
        asked = demand_of_sample(one, MODEL, warm)
        launches.append(
            {
                "kernel": one.profile.launch.kernel,
                "blocks": one.profile.launch.blocks,
                "counted": one.blocks,
                "units": {name: float(f"{s:.4g}") for name, s in asked.units.items()},
                "latency": float(f"{asked.latency:.4g}"),
                "wave": float(f"{asked.wave:.4g}"),
                "early": asked.early,
                "met": asked.chain.met,
                "code": float(f"{asked.code:.4g}"),
            }
        )
        before = moved
    return {
        "ladder": ladder,
        "rung": rung,
        "case": case,
        "language": language,
        "measured": measured,
        "launches": launches,
        "blind": True,
    }


# ---- judging -------------------------------------------------------------------------------------
def rows() -> list[dict[str, Any]]:
    """The rows of the record."""
    if not RECORD.is_file():
        return []
    return [json.loads(line) for line in RECORD.read_text("utf-8").splitlines()]


def fit(every: Sequence[judge.Row]) -> Factors:
    """The factors with the least error on the rows for the fit: a random search near `PRIOR`."""
    chosen = [r for r in every if judge.is_for_fit(r)]

    def loss(factors: Factors) -> float:
        # A rung that the model does not understand must not decide.
        logs = [abs(np.log(judge.predicted(r, factors) / r["measured"])) for r in chosen]
        pairs = zip(astuple(factors), astuple(PRIOR), strict=True)
        far = sum(np.log(value / prior) ** 2 for value, prior in pairs)
        return float(sum(min(x, 1) for x in logs) / len(chosen) + STIFFNESS * far)

    draw, best = random.Random(SEED), PRIOR
    least = loss(best)
    for n in range(ROUNDS):
        step = max(0.02, 0.5 * 0.99 ** (n / 5))
        name = draw.choice(FREE)
        value = getattr(best, name) * 2 ** draw.gauss(0, step)
        tried = replace(best, **{name: float(f"{value:.3g}")})
        reached = loss(tried)
        if reached < least:
            best, least = tried, reached
    return best


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("ladders", nargs="*")
    parser.add_argument("--count", action="store_true")
    parser.add_argument("--fit", action="store_true")
    parser.add_argument("--kept", type=Path, help="the folder of counters")
    options = parser.parse_args()
    if options.count:
        count(options.ladders, options.kept)
    every = rows()
    factors = fit(every) if options.fit else FITTED
    if options.fit:
        print(factors)
    for what, wanted in (("fitted", True), ("judged", False)):
        some = [r for r in every if judge.is_for_fit(r) is wanted]
        print(what, judge.judge(some, factors))


if __name__ == "__main__":
    main()
