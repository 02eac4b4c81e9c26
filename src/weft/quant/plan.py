"""The options of a conversion, checked before a layer changes."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from fnmatch import fnmatchcase

from weft.errors import ArgumentError
from weft.quant.calibration import Calibration
from weft.quant.formats import BLOCK, CHANNEL, FORMATS, SIDE, TENSOR, Group, check_group, format_of
from weft.quoting import quoted


@dataclass(frozen=True)
class Plan:
    """Options of `weft.quant.convert`; the group is a word or a number."""

    format: str
    group: Group
    symmetric: bool
    skip: tuple[str, ...]
    dynamic: bool
    calibration: Calibration | None
    smooth: float | None
    keep: float
    keep_originals: bool

    def skips(self, name: str) -> bool:
        """Decide whether a layer stays: by its whole name or the last part of it."""
        last = name.rpartition(".")[2]
        return any(fnmatchcase(name, p) or fnmatchcase(last, p) for p in self.skip)


def plan(
    format: object,
    group: object,
    *,
    symmetric: bool,
    skip: object,
    dynamic: bool,
    calibration: object,
    smooth: object,
    keep: object,
    keep_originals: bool,
) -> Plan:
    """Check the options of a conversion; raise for the first that is wrong."""
    form = format_of(format)
    kind = check_group(form, group)
    if dynamic:
        _check_dynamic(form.name, kind, symmetric)
    if isinstance(skip, str) or not isinstance(skip, Iterable):
        raise ArgumentError(
            "skip is no sequence of names", got=quoted(skip), allowed='("lm_head", "blocks.0.*")'
        )
    names = tuple(skip)
    if not all(isinstance(name, str) for name in names):
        raise ArgumentError("skip has something else than names", got=quoted(names), allowed="str")
    if calibration is not None and not isinstance(calibration, Calibration):
        raise ArgumentError(
            "calibration has another type",
            got=quoted(calibration),
            allowed="the result of weft.quant.calibrate",
        )
    if smooth is not None:
        _check_share("smooth", smooth, 1.0, calibration)
    if keep != 0 or isinstance(keep, bool):
        _check_share("keep", keep, 0.5, calibration)
    assert smooth is None or isinstance(smooth, float | int)
    assert isinstance(keep, float | int)
    return Plan(
        form.name, kind, symmetric, names, dynamic, calibration, smooth, keep, keep_originals
    )


def _check_dynamic(format: str, group: Group, symmetric: bool) -> None:
    """Raise for weights that no product of 8 bits takes."""
    form = FORMATS[format]
    groups: tuple[Group, ...] = (CHANNEL, TENSOR)
    if not form.integer:
        groups = (CHANNEL, TENSOR, BLOCK, SIDE)
    if form.bits != 8:
        raise ArgumentError(
            "activations have 8 bits",
            got=f"dynamic=True with {format}",
            allowed=", ".join(name for name, f in FORMATS.items() if f.bits == 8),
        )
    if group not in groups:
        raise ArgumentError(
            f"products of {format} take no such groups",
            got=f"group={group!r} with dynamic=True",
            allowed=", ".join(map(repr, groups)),
        )
    if not symmetric:
        raise ArgumentError(
            "products of integers take no zeros",
            got="symmetric=False with dynamic=True",
            allowed="symmetric=True",
        )


def _check_share(name: str, value: object, most: float, calibration: object) -> None:
    number = isinstance(value, float | int) and not isinstance(value, bool)
    if not number or not 0 <= value <= most:  # type: ignore[operator]
        raise ArgumentError(f"{name} is out of range", got=quoted(value), allowed=f"0 to {most:g}")
    if calibration is None:
        raise ArgumentError(
            f"{name} needs statistics of the inputs of layers",
            got=f"{name}={value}, calibration=None",
            next="calibration=weft.quant.calibrate(model, batches)",
        )
