"""Compare losses and gradients of models of transformers, compiled by weft, with PyTorch's own.

    python benchmarks/transformers_models.py [names ...] [--mode MODE] [--record]

Each family has a tiny configuration with random weights (transformers_families.py), and runs on the
simulated GPU. The transformers package is no dependency of weft. A gradient's difference is
relative to its norm, or to a thousandth of the norm of all gradients if that is larger. One JSON
line for each family; --record appends them to records/transformers_models.jsonl. The exit code is 1
if a difference is larger than rounding explains: than a limit, and under autocast also than the
difference of PyTorch's gradients under autocast from those in float32.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import sys
import time
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import torch
import transformers as t
from transformers_families import MODELS, SEED, Inputs

import weft

RECORDS = Path(__file__).with_name("records") / "transformers_models.jsonl"
ROUNDING = 2e-4
"""The largest difference by rounding in float32."""
LOWER = 0.12
"""The same where values are rounded to bfloat16."""
SLACK = 1.25
"""By which factor weft's gradients under autocast may be further from float32 than PyTorch's."""


def _plain(model: Any, inputs: Inputs) -> Inputs:
    return inputs


def _halved(model: Any, inputs: Inputs) -> Inputs:
    model.to(torch.bfloat16)
    floating = {k: x for k, x in inputs.items() if hasattr(x, "dtype") and x.is_floating_point()}
    return inputs | {k: x.to(torch.bfloat16) for k, x in floating.items()}


def _channels_last(model: Any, inputs: Inputs) -> Inputs:
    model.to(memory_format=torch.channels_last)
    images = {k: x for k, x in inputs.items() if hasattr(x, "dim") and x.dim() == 4}
    return inputs | {k: x.contiguous(memory_format=torch.channels_last) for k, x in images.items()}


def _checkpoints(model: Any, inputs: Inputs) -> Inputs:
    model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
    return inputs


@dataclass(frozen=True)
class Mode:
    """A way to run a model.

    limit    the largest difference by rounding
    prepare  (model, inputs) -> the inputs; may change the model
    region   the region around the call
    trains   False for evaluation without gradients
    convert  True to replace the layers, by weft.nn, instead of compiling the model
    options  of torch.compile
    """

    limit: float = ROUNDING
    prepare: Callable[[Any, Inputs], Inputs] = _plain
    region: Callable[[], Any] = contextlib.nullcontext
    trains: bool = True
    convert: bool = False
    options: tuple[tuple[str, Any], ...] = ()


MODES = {
    "train": Mode(),
    "autocast": Mode(LOWER, region=lambda: torch.autocast("cpu", dtype=torch.bfloat16)),
    "bfloat16": Mode(LOWER, _halved),
    "channels_last": Mode(prepare=_channels_last),
    "checkpoint": Mode(prepare=_checkpoints),
    "dynamic": Mode(options=(("dynamic", True),)),
    "no_grad": Mode(region=torch.no_grad, trains=False),
    "inference": Mode(region=torch.inference_mode, trains=False),
    "convert": Mode(convert=True),
}


def step(call: Any, model: Any, inputs: Inputs, mode: Mode) -> tuple[float, dict[str, Any]]:
    """The loss, and the gradients of all parameters that have one."""
    model.zero_grad(set_to_none=True)
    torch.manual_seed(SEED)
    np.random.seed(SEED)  # BigBird draws its blocks so
    with mode.region():
        loss = call(**inputs).loss
    if mode.trains:
        loss.backward()
    found = {k: p.grad.clone() for k, p in model.named_parameters() if p.grad is not None}
    return float(loss), found


def apart(got: Mapping[str, Any], want: Mapping[str, Any]) -> tuple[float, str]:
    """The largest difference of a gradient, and its parameter."""
    if missing := got.keys() ^ want.keys():
        return float("inf"), min(missing)
    if not want:
        return 0.0, ""
    least = 1e-3 * float(torch.cat([g.flatten() for g in want.values()]).norm())
    return max(
        (float((got[k] - g).norm()) / max(float(g.norm()), least), k) for k, g in want.items()
    )


def compare(name: str, mode_name: str) -> dict[str, Any]:
    """The row of a family."""
    mode = MODES[mode_name]
    torch._dynamo.reset()
    torch.manual_seed(SEED)
    make, inputs = MODELS[name]
    model = make().train(mode.trains)
    given = mode.prepare(model, inputs())
    start = {k: v.clone() for k, v in model.state_dict().items()}
    want, gradients = step(model, model, given, mode)
    model.load_state_dict(start)
    exact: dict[str, Any] = {}
    if mode_name == "autocast":
        _, exact = step(model, model, given, MODES["train"])
        model.load_state_dict(start)
    began = time.perf_counter()
    if mode.convert:
        call: Any = weft.nn.convert(model)
    else:
        call = torch.compile(model, backend="weft", **dict(mode.options))
    got, ours = step(call, model, given, mode)
    gradient, parameter = apart(ours, gradients)
    loss = abs(got - want) / abs(want)
    row = {
        "family": name, "mode": mode_name, "loss": loss, "gradient": gradient,
        "parameter": parameter, "right": max(loss, gradient) < mode.limit,
        "seconds": round(time.perf_counter() - began, 1),
    }  # fmt: skip
    if exact:
        row["float32"] = {"weft": apart(ours, exact)[0], "eager": apart(gradients, exact)[0]}
        near = row["float32"]["weft"] < SLACK * row["float32"]["eager"]
        row["right"] = loss < mode.limit and (gradient < mode.limit or near)
    return row


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("names", nargs="*", metavar="name", help=f"of {', '.join(MODELS)}")
    parser.add_argument("--mode", choices=MODES, default="train")
    parser.add_argument("--record", action="store_true")
    options = parser.parse_args()
    if unknown := [name for name in options.names if name not in MODELS]:
        parser.error(f"{unknown[0]} is none of {', '.join(MODELS)}")
    warnings.filterwarnings("ignore")
    t.logging.set_verbosity_error()
    about = {"transformers": t.__version__, "torch": torch.__version__, "seed": SEED}
    about["date"] = datetime.now(UTC).date().isoformat()
    rows = []
    for name in options.names or MODELS:
        row = compare(name, options.mode) | about
        rows.append(row)
        print(json.dumps(row), flush=True)
        if options.record:
            with RECORDS.open("a", encoding="utf-8") as file:
                file.write(json.dumps(row) + "\n")
    return int(not all(row["right"] for row in rows))


if __name__ == "__main__":
    sys.exit(main())
