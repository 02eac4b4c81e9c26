"""Predicts the time of every kernel that a script or program launches, on several GPUs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from weft.device import models
from weft.errors import ArgumentError, Error
from weft.measure.profile.prediction.demand import kept
from weft.measure.profile.prediction.duration import predict as of_profile
from weft.measure.profile.result import Profile
from weft.tasks import profile
from weft.tasks.profile import ProfileOptions
from weft.values.time.prediction import Prediction


@dataclass(frozen=True)
class Predicted:
    """The launches of a file, and the predicted time of each on each GPU.

    counted   the name of the GPU whose caches the counters are of
    names     key of a GPU -> its name
    launches  for each kernel and shape, the predictions in the order of `names`
    """

    counted: str
    names: dict[str, str]
    launches: tuple[tuple[Prediction, ...], ...]

    def to_dict(self) -> dict[str, Any]:
        """The predictions as a dict, for JSON."""
        return {
            "counted": self.counted,
            "gpus": self.names,
            "launches": [[one.to_dict() for one in row] for row in self.launches],
        }


def gpus(text: str) -> tuple[str, ...]:
    """The keys of GPUs in a list such as "h200,a100"; raise for a name that is none."""
    named = [part.strip() for part in text.split(",") if part.strip()]
    if not named:
        raise ArgumentError(
            "--on names no GPU",
            got=repr(text),
            allowed=f"names such as {models.names()[0]}",
            next="--on h200,a100",
        )
    return tuple(dict.fromkeys(models.get(name).key for name in named))


def predict(asked: ProfileOptions, on: Sequence[str]) -> Predicted:
    """Count the launches of a file, and predict their times on GPUs by key."""
    found = profile.profile(asked)
    launches = [p for p in found.profiles if isinstance(p, Profile)]
    if not launches:
        raise Error(
            "there is nothing to predict",
            where=str(asked.file),
            got="no launch of a kernel on the simulated GPU",
            next="weft profile FILE shows the operations of a PyTorch script",
        )
    return of_profiles(launches, on)


def of_profiles(launches: Sequence[Profile], on: Sequence[str]) -> Predicted:
    """Predict the times of launches that are counted, on GPUs by key."""
    left = {key: kept(launches, models.get(key)) for key in on}
    rows = tuple(tuple(of_profile(p, key, left[key]) for key in on) for p in launches)
    counted = models.get(launches[0].gpu)
    return Predicted(counted.name, {key: models.get(key).name for key in on}, rows)
