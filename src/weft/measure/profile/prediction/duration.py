"""Predicts the time of a launch from its profile: `duration` in seconds, `predict` with reasons.

Units work at the same time, so the busiest one takes most of the time; those that are nearly as
busy add to it. The norm of their times with a large exponent is such a sum. Latency adds to it in
the same way, with a smaller exponent: a unit that is nearly busy makes latencies longer.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from weft.device import models
from weft.device.models import GpuModel
from weft.measure.profile.prediction.constants import FITTED, JUDGED, Factors
from weft.measure.profile.prediction.demand import (
    COPIES,
    MMA,
    OTHERS,
    PARTIAL,
    TAGS,
    Demand,
    demand,
)
from weft.measure.profile.prediction.stalls import stalls
from weft.values.profile import Profile
from weft.values.time.prediction import Prediction

LATENCY, LAUNCH, ISSUE = "latency", "launch", "instructions"
_PARTS: Mapping[str, str] = {
    "DRAM": "dram",
    "L2": "l2",
    "L2" + COPIES: "copies",
    "L1 and shared memory": "lsu",
    TAGS: "tags",
    "atomics": "atomics",
    PARTIAL: "atomics",
    ISSUE: "issue",
    OTHERS: "others",
    "integer": "integer",
}
"""Unit -> the factor of its rate; the others are arithmetic pipes."""


def duration(p: Profile, gpu: str | None = None) -> float:
    """The predicted seconds of one launch of a profile, on a GPU by name or on the profile's."""
    model = models.get(gpu or p.gpu)
    asked = demand(p, model)
    return joined(times(asked), FITTED, asked.early, asked.chain.met)


def predict(p: Profile, gpu: str | None = None, kept: float = 0.0) -> Prediction:
    """The predicted time of a launch, what bounds it, and where its warps wait.

    kept  the part of its bytes that L2 has from the launch before
    """
    model = models.get(gpu or p.gpu)
    asked = demand(p, model, kept)
    taken = times(asked)
    seconds = joined(taken, FITTED, asked.early, asked.chain.met)
    most = max(taken, key=lambda name: taken[name])
    return Prediction(
        kernel=p.launch.kernel,
        gpu=model.key,
        seconds=seconds,
        bound=most if taken[most] > _launch(FITTED, asked.early) else LAUNCH,
        units=tuple(sorted(taken.items(), key=lambda pair: -pair[1])),
        stalls=stalls(p, asked.chain, most, _warp_clocks(p, model, seconds)),
        judged=model.key in JUDGED,
        launches=p.launches,
    )


def times(asked: Demand, factors: Factors = FITTED) -> dict[str, float]:
    """Unit -> the seconds that it takes alone, at the rate that real launches reach."""
    out: dict[str, float] = {}
    for name, seconds in asked.units.items():
        part = getattr(factors, _factor(name))
        plain = ISSUE if name == OTHERS else name.removesuffix(MMA).removesuffix(COPIES)
        out[plain] = out.get(plain, 0.0) + seconds / part
    own = asked.latency * factors.latency + asked.wave * factors.block
    return {**out, LATENCY: own + asked.code * factors.fetch}


def joined(
    taken: Mapping[str, float], factors: Factors, early: bool = False, met: bool = False
) -> float:
    """The seconds of a launch: its units, its latency as far as it is not hidden, the launch."""
    units = [t for name, t in taken.items() if name != LATENCY]
    busy = norm(units, factors.sharpness)
    hiding = factors.meeting if met else factors.hiding
    return norm([busy, taken.get(LATENCY, 0.0)], hiding) + _launch(factors, early)


def _launch(factors: Factors, early: bool) -> float:
    return factors.early if early else factors.launch


def norm(values: Sequence[float], exponent: float) -> float:
    """The norm with an exponent: between the largest value and the sum."""
    most = max(values, default=0.0)
    if not most:
        return 0.0
    total: float = sum((x / most) ** exponent for x in values)
    root: float = total ** (1.0 / exponent)
    return most * root


def _factor(unit: str) -> str:
    if unit.startswith("tensor"):
        return "mma" if unit.endswith(MMA) else "warpgroup"
    return _PARTS.get(unit, "pipes")


def _warp_clocks(p: Profile, gpu: GpuModel, seconds: float) -> float:
    """Clocks of all warps while they are resident, in one launch of this time."""
    from weft.measure.profile.cliffs import fit

    warps = -(-p.launch.threads // gpu.warp_size)
    resident = min(p.launch.blocks, max(1, fit(p.launch, gpu).blocks) * gpu.sms)
    return seconds * gpu.boost_mhz * 1e6 * resident * warps
