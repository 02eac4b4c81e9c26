"""Trains a network for a few steps, for `weft profile`.

weft profile benchmarks/profiled_network.py --device gpu --args "gpt2 124m 8 1024"
weft profile benchmarks/profiled_network.py --args "gpt2 tiny 2 16 converted"
"""

from __future__ import annotations

import argparse

import torch

import weft
import weft.torch_backend
from weft.networks.network import network

STEPS = 4


def main() -> None:
    """Make a network in bfloat16 and train it."""
    parser = argparse.ArgumentParser()
    parser.add_argument("name")
    parser.add_argument("size")
    parser.add_argument("count", type=int)
    parser.add_argument("length", type=int)
    parser.add_argument(
        "how", choices=("plain", "converted", "compiled"), default="plain", nargs="?"
    )
    given = parser.parse_args()
    made = network(given.name, given.size, device="cuda")
    model = made.module.to(torch.bfloat16)
    if given.how == "converted":
        model = weft.nn.convert(model)
    optimizer = torch.optim.AdamW(model.parameters(), fused=True)
    batch = made.batch(given.count, given.length, device="cuda", dtype=torch.bfloat16)
    run = (
        torch.compile(model, backend=weft.torch_backend.compile_graph)
        if given.how == "compiled"
        else model
    )
    for _ in range(STEPS):
        loss = made.loss(run(*batch.inputs), batch.target)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print(f"loss {loss.item():.4f}")


main()
