"""Saves the training of a GPT to a file and restores it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

from weft.errors import ArgumentError
from weft.train.checkpoint import read, write
from weft.train.gpt.loop import TextTraining
from weft.train.gpt.text import Text
from weft.train.gpt.tokens import Tokens
from weft.values.training import History

KEYS = {"model", "optimiser", "done", "history", "settings", "text", "merges"}


def save(training: TextTraining, text: Text, tokens: Tokens, path: Path) -> None:
    """Write a checkpoint for `load`; its weights load into `weft.networks.gpt2` as well."""
    history = {**training.history.to_dict(), "times": None}
    history.pop("per_step")
    write(path, {
        "model": training.model.state_dict(),
        "optimiser": training.step.parts.optimiser.state_dict(),
        "done": training.done,
        "history": history,
        "settings": training.settings.identity,
        "text": text.digest,
        "merges": list(tokens.merges),
    })  # fmt: skip


def load(training: TextTraining, text: Text, tokens: Tokens, path: Path) -> None:
    """Restore the training from a checkpoint of the same text, tokens and settings."""
    state = read(path, training.device, KEYS)
    _check(state, training, text, tokens, path)
    training.model.load_state_dict(state["model"])
    training.step.parts.optimiser.load_state_dict(_placed(state["optimiser"], training.device))
    training.done, training.history = state["done"], History(**state["history"])
    training.history.stopped = False


def _check(
    state: dict[str, Any], training: TextTraining, text: Text, tokens: Tokens, path: Path
) -> None:
    ours = {**training.settings.identity, "text": text.digest, "tokens": tokens.count}
    theirs = {
        **state["settings"],
        "text": state["text"],
        "tokens": Tokens(tuple(state["merges"])).count,
    }
    # More steps are no other training: the learning rate falls over all of them.
    other = {k: v for k, v in theirs.items() if ours.get(k) != v and k != "steps"}
    if other:
        raise ArgumentError(
            f"{path} belongs to another training",
            got=", ".join(f"{k} {v}" for k, v in other.items()),
            allowed=", ".join(f"{k} {ours.get(k)}" for k in other),
            next="pass the options as there",
        )


def _placed(state: dict[str, Any], device: torch.device) -> dict[str, Any]:
    """The optimiser's state; a learning rate that a graph reads stays in the device's memory."""
    for group in state["param_groups"]:
        if isinstance(group["lr"], torch.Tensor):
            group["lr"] = group["lr"].to(device)
        elif device.type == "cuda":
            group["lr"] = torch.tensor(group["lr"], device=device)
    return state
