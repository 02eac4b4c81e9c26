"""Saves a training to a file and restores it."""

from __future__ import annotations

import pickle
from collections.abc import Set
from pathlib import Path
from typing import Any

import torch

from weft.errors import ArgumentError
from weft.train.loop import Training
from weft.train.network import Own
from weft.values.training import History

KEYS = {"model", "optimiser", "done", "history", "seed", "batch"}


def save(training: Training, path: Path) -> None:
    """Write a checkpoint for `load`."""
    model = _network(training)
    if isinstance(model, Own):
        model.count(training.done)
    history = {**training.history.to_dict(), "times": None}
    history.pop("per_step")
    state = {
        "model": _layers(training).state_dict(),
        "optimiser": training.step.parts.optimiser.state_dict(), "done": training.done,
        "history": history, "seed": training.settings.seed, "batch": _batch(training),
    }  # fmt: skip
    write(path, state)


def write(path: Path, state: dict[str, Any]) -> None:
    """Write a file; a write that is interrupted leaves the file before it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f"{path.name}.part")
    torch.save(state, part)
    part.replace(path)


def load(training: Training, path: Path) -> None:
    """Restore the training from a checkpoint."""
    state = read(path, training.device, KEYS)
    same = (training.settings.seed, _batch(training))
    if (state["seed"], state["batch"]) != same:
        raise ArgumentError(
            f"{path} belongs to another training",
            got=f"seed {state['seed']}, batch {state['batch']}",
            allowed=f"seed {same[0]}, batch {same[1]}",
            next="pass --seed and --batch as there",
        )
    _layers(training).load_state_dict(state["model"])
    training.step.parts.optimiser.load_state_dict(state["optimiser"])
    training.done, training.history = state["done"], History(**state["history"])
    training.history.stopped = False


def read(path: Path, device: torch.device, keys: Set[str]) -> dict[str, Any]:
    """The content of a checkpoint, which must have the keys."""
    if not path.is_file():
        raise ArgumentError("there is no such checkpoint", got=str(path))
    try:
        state = torch.load(path, map_location=device, weights_only=True)
    except (pickle.UnpicklingError, RuntimeError, EOFError, ValueError) as error:
        first = str(error).partition("\n")[0]
        raise _wrong(path, first) from None
    if not isinstance(state, dict) or not state.keys() >= keys:
        names = ", ".join(map(str, state)) if isinstance(state, dict) else ""
        raise _wrong(path, f"a {type(state).__name__} {names}".rstrip()[:80])
    return state


def _wrong(path: Path, got: str) -> ArgumentError:
    return ArgumentError(
        f"{path} is not a checkpoint of weft train",
        got=got,
        allowed="a file that --checkpoint wrote",
        next="leave --resume out to start anew; the file is then overwritten",
    )


def _batch(training: Training) -> int:
    """Images of a step, of all processes together."""
    return training.settings.batch * training.group.world


def _layers(training: Training) -> torch.nn.Module:
    """The layers as in PyTorch, so that checkpoints of both load both ways."""
    model = _network(training)
    return model.layers if isinstance(model, Own) else model


def _network(training: Training) -> torch.nn.Module:
    """The model without DDP, which has it inside."""
    model: torch.nn.Module = getattr(training.model, "module", training.model)
    return model
