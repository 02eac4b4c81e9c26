"""Prepares a learner's file and the data of a case of an exercise, for tools that run it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from weft.climbing.climb import prepare, zeros
from weft.climbing.rung import Runner
from weft.device.selection import Selection
from weft.learn.exercise import KernelExercise
from weft.measure.check import buffers, input_data
from weft.measure.op import Case


def runner(exercise: KernelExercise, path: Path, device: Selection) -> Runner:
    """The file, compiled or imported, as a function of arrays and sizes by name."""
    attempt = exercise.attempt(path)
    prepare(attempt, "gpu" if device.real else "sim")
    return Runner(attempt, exercise.op, sms=device.model.sms, empty=zeros)


def arguments(exercise: KernelExercise, case: Case | None = None) -> dict[str, Any]:
    """Arrays with random data, results of zeros, and sizes; by default of the first case."""
    op, rng = exercise.op, np.random.default_rng(0)
    case = case or op.cases[0]
    arrays: dict[str, Any] = {s.name: op.data(s, case, rng, input_data.random) for s in op.inputs}
    arrays |= {s.name: np.zeros(s.shape(case), s.dtype.numpy) for s in op.outputs}
    if exercise.arrays == "torch":
        library = buffers.torch("cpu")
        specs = (*op.inputs, *op.outputs)
        arrays = {s.name: buffers.copied(arrays[s.name], s.dtype, library) for s in specs}
    return {**arrays, **case.sizes}
