"""Gives launches of a PyTorch script the work of their profiles; needs no torch."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import NamedTuple

from weft.device.models import GpuModel
from weft.measure.profile import floor, roofline
from weft.values.model import Call
from weft.values.profile import Profile


def with_profiles(calls: Iterable[Call], profiles: Sequence[Profile], gpu: GpuModel) -> list[Call]:
    """Give the launches of kernels the work and the least time of their profiles."""
    by_name: dict[str, list[Profile]] = {}
    for profile in profiles:
        by_name.setdefault(profile.launch.kernel, []).append(profile)
    known = {name: _each(found, gpu) for name, found in by_name.items()}
    return [_known(c, known.get(c.name)) if c.kernel else c for c in calls]


class _Work(NamedTuple):
    """The work of one launch: values of a call."""

    seconds: float
    flops: float
    bytes: float
    roofline: float
    limit: str


def _known(call: Call, work: _Work | None) -> Call:
    return call if work is None else replace(call, **work._asdict())


def _each(profiles: Sequence[Profile], gpu: GpuModel) -> _Work:
    """The work of one launch, on average over the shapes of a kernel."""
    launches = sum(p.launches for p in profiles)
    seconds = sum(floor.seconds(floor.units(p, gpu)) for p in profiles)
    flops = sum(
        n for p in profiles for unit, n in floor.work(p).items() if unit[:2] in ("fp", "te")
    )
    moved = sum(floor.dram_bytes(p) for p in profiles)
    roofs = sum(roofline.roofline(p, gpu).floor for p in profiles)
    bound = floor.bound(floor.units(profiles[0], gpu)).name
    return _Work(seconds / launches, flops / launches, moved / launches, roofs / launches, bound)
