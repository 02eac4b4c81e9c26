"""Device words: every `device=` and `--device` of weft is read here.

sim         the simulated GPU, of the default model
sim:h200    the simulated GPU, of the named model; the name alone also selects it
gpu, cuda   the first real GPU
gpu:1       a real GPU by its number; cuda:1 is the same
"""

from __future__ import annotations

import re
import warnings
from dataclasses import replace

from weft.device import models
from weft.device.models import GpuModel
from weft.errors import ArgumentError, MissingDependency, expect
from weft.quoting import similar
from weft.records import dataclass

ALLOWED = 'a string: "sim", "sim:MODEL", "gpu", "gpu:N" or "cuda:N"'
_REAL = re.compile(r"(?:gpu|cuda)(?::(\d{1,9}))?")


@dataclass(frozen=True)
class Selection:
    """The device that a device word selects.

    number  the real GPU; None for a simulated one
    key     the model that the word names; None where it names none
    """

    number: int | None = None
    key: str | None = None

    @property
    def real(self) -> bool:
        """True for a real GPU."""
        return self.number is not None

    @property
    def word(self) -> str:
        """The device in the one spelling that records and messages use."""
        return f"sim:{self.simulated.key}" if self.number is None else f"gpu:{self.number}"

    @property
    def simulated(self) -> GpuModel:
        """The model to simulate; for a real GPU, the one that stands in for it on the host."""
        return models.get(self.key or models.DEFAULT)

    @property
    def model(self) -> GpuModel:
        """The model whose limits and ceilings apply.

        For a real GPU it is the GPU's own model, or the default where the table has none.
        """
        if self.number is None or self.key is not None:
            return self.simulated
        self.require("use its limits")
        from weft.device.gpu.facts import facts  # needs a driver

        return models.find(facts(self.number).name) or self.simulated

    def first(self, reason: str) -> None:
        """Raise ArgumentError for a real GPU that is not the first; `reason` says why."""
        if self.number:
            raise ArgumentError(
                reason,
                got=self.word,
                allowed="gpu, gpu:0",
                next=f"CUDA_VISIBLE_DEVICES={self.number} makes it the first",
            )

    def to_simulate(self, subject: str) -> GpuModel:
        """The model to simulate; raises ArgumentError where `subject` was given a real GPU."""
        if self.real:
            raise ArgumentError(
                f"{subject} selects a GPU to simulate",
                got=self.word,
                allowed="sim, sim:MODEL",
                next="the device follows the data: arrays on a real GPU run there",
            )
        return self.simulated

    def require(self, purpose: str, next: str = "") -> None:
        """Raise MissingDependency for a real GPU that is not in this machine."""
        if self.number is None:
            return
        from weft.device import driver  # needs a driver

        if self.number >= driver.count():
            raise MissingDependency(
                f"there is no GPU to {purpose}",
                got=f"{self.word}: {driver.absence()}" if not driver.count() else self.word,
                allowed=f"gpu:0 to gpu:{driver.count() - 1}" if driver.count() else "",
                next=next,
            )


def select(device: str | Selection) -> Selection:
    """Read a device word; a selection is returned as it is."""
    if isinstance(device, Selection):
        return device
    expect("device", device, str, allowed=ALLOWED)
    word = device.strip().lower()
    if real := _REAL.fullmatch(word):
        return Selection(number=int(real[1] or 0))
    if word == "sim":
        return Selection()
    found = models.find(device)
    if found is None:
        raise _unknown(device)
    return Selection(key=found.key)


def number(device: int | str | None) -> int | None:
    """The number of a real GPU, given as a number or as a word; None for a simulated GPU."""
    return device if device is None or isinstance(device, int) else select(device).number


def selected(
    device: str | Selection, gpu: str | None, *, name: str = "gpu", stacklevel: int = 3
) -> Selection:
    """`device`, or the deprecated `gpu`, which names a model alone, with a DeprecationWarning.

    `name` is the deprecated spelling that the warning mentions. With both, a real GPU stays
    selected, and the model sets its ceilings.
    """
    chosen = select(device)
    if gpu is None:
        return chosen
    expect(name, gpu, str, allowed='a string: "h200", "rtx3070"')
    model = models.get(gpu)
    warnings.warn(deprecated(name, model.key), DeprecationWarning, stacklevel=stacklevel)
    return replace(chosen, key=model.key)


def deprecated(name: str, key: str) -> str:
    """The text of the warning about a deprecated option that names a model."""
    new = f"--device sim:{key}" if name.startswith("-") else f'device="sim:{key}"'
    return f"{name} is deprecated and will be removed in the next release; use {new}"


def _unknown(device: str) -> ArgumentError:
    words = {"sim": "sim", "gpu": "gpu", "cuda": "cuda"}
    for key in models.names():
        words |= {key: f"sim:{key}", f"sim:{key}": f"sim:{key}"}
    near = similar(device.lower().replace(" ", ""), words, 0.5)
    return ArgumentError(
        "no such device",
        got=repr(device),
        allowed=f"sim, sim:MODEL, gpu, gpu:N, cuda:N; MODEL is {', '.join(models.names())}",
        next=f"did you mean '{words[near]}'?" if near else "`weft devices` shows them all",
    )
