"""Makes the profile of a step by layers from the calls of a script."""

from __future__ import annotations

from weft.device.models import GpuModel
from weft.measure.layers import memory
from weft.measure.layers.advice import StepFacts, advise
from weft.measure.layers.layers import LayerNames, layers
from weft.measure.layers.steps import choose, steps
from weft.values.layers import StepProfile
from weft.values.model import ModelProfile


def step_profile(model: ModelProfile, gpu: GpuModel) -> StepProfile | None:
    """The step that takes most of a script's time; None for a script that calls no module."""
    found = steps(model.calls, model.events)
    if not found:
        return None
    step, alike = choose(found)
    names = LayerNames(model.modules)
    peak = memory.peak(model.memory, names, model.peak)
    rows = layers(step.calls, names, memory.held(peak))
    measured = any(c.kernels is not None for c in step.calls)
    facts = StepFacts(model.script, gpu, measured, step.calls, rows, names, model.memory, peak)
    return StepProfile(
        model.script, model.gpu, measured, len(found), alike, step.number, step.training,
        len(step.calls), rows, peak, advise(facts),
    )  # fmt: skip
