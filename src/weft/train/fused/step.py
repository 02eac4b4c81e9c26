"""A training step of the network for MNIST as seven kernels; it has `TrainingStep`'s interface."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable
from typing import Any

import torch

from weft.ops.core.target import target
from weft.train.fused.kernels import Network, NetworkSizes, StepMemory, blocks, launches
from weft.train.step import Parts, TrainingStep

FORWARD = ("moments", "features", "hidden", "loss")
"""The kernels of the forward pass; the last one also computes the gradient of its scores."""
BACKWARD = ("hidden_backward", "backward")
LARGEST = {"weight": 1000.0, "gain or bias": 36.0}
"""Products are of halves, up to 65,504. Weights are scaled by up to 64; what batch norm normalises
reaches the square root of its number, times the gain."""
Reduce = Callable[[torch.Tensor], None]
"""Changes the gradients, which are one tensor: to their mean over processes, for example."""


class FusedStep(TrainingStep):
    """A step of `network()` on fused kernels. It updates the model and the optimiser's state.

    precision  fp32: tensor cores with three products of halves for each, as accurate as single
               precision; tf32: one product, as accurate as PyTorch's with tf32
    reduce     called with the gradients before the update; the update is the optimiser's then
    """

    def __init__(
        self, parts: Parts, batch: int, device: torch.device, graph: bool,
        precision: str = "fp32", reduce: Reduce | None = None,
    ) -> None:  # fmt: skip
        super().__init__(parts, batch, device, graph)
        self.precision, self.reduce = precision, reduce
        layers: Any = parts.model.layers
        group = parts.optimiser.param_groups[0]
        self.loss = torch.zeros((), device=device)
        parameters = [p.detach() for p in parts.model.parameters()]
        self._flat = torch.zeros(sum(p.numel() for p in parameters), device=device)
        self._rate = torch.zeros((), device=device)
        sizes, exact = NetworkSizes.of(layers), precision == "fp32"
        self.pixels = torch.zeros(batch, 1, sizes.side, sizes.side, device=device)
        plan = blocks(sizes, batch, exact, target(device).sms)
        self._memory = StepMemory(sizes, plan, batch, exact, device)
        network = Network(parameters, layers[1], layers[5], self._flat, self._rate, self.loss)
        self._launches = launches(
            sizes, plan, self._memory, exact, self.pixels, self.classes, network,
            float(group["momentum"]), apply=reduce is None,
        )  # fmt: skip
        self._attach()
        # A loaded state has tensors of its own.
        parts.optimiser.register_load_state_dict_post_hook(lambda _: self._attach())

    def __deepcopy__(self, memo: dict[int, Any]) -> FusedStep:
        parts = copy.deepcopy(self.parts, memo)
        made = FusedStep(
            parts, len(self.classes), self.pixels.device, self.graphed, self.precision, self.reduce
        )
        made._flat.copy_(self._flat)
        return made

    def _backward(self) -> None:
        for name in BACKWARD:
            self._launches[name]()

    @property
    def stages(self) -> dict[str, Callable[[], None]]:
        update = self._launches["update"] if self.reduce is None else self._reduced
        return {"forward": self._forward, "backward": self._backward, "update": update}

    def _forward(self) -> None:
        for name in FORWARD:
            self._launches[name]()

    def _reduced(self) -> None:
        assert self.reduce is not None
        self._launches["update"]()
        self.reduce(self._flat)
        self.parts.optimiser.step()

    def set_rate(self, rate: float) -> None:
        super().set_rate(rate)
        self._rate.fill_(rate)

    def check_range(self) -> None:
        found = {}
        for kind in LARGEST:
            of_kind = [
                p for p in self.parts.model.parameters() if (p.dim() > 1) == (kind == "weight")
            ]
            found[kind] = float(torch.stack([p.detach().abs().max() for p in of_kind]).max())
        for kind, value in found.items():
            if not value <= LARGEST[kind]:  # a NaN is none either
                warnings.warn(
                    f"a {kind} of the network is {value:.4g}; above {LARGEST[kind]:,.0f} the fused "
                    "step cuts numbers off. Lower the learning rate, or train `weft.nn` layers "
                    "with PyTorch's loop.",
                    stacklevel=2,
                )

    def _attach(self) -> None:
        """Make each gradient, or each momentum of the optimiser, a part of the flat tensor."""
        begin = 0
        for p in self.parts.model.parameters():
            part = self._flat[begin : begin + p.numel()].view_as(p)
            begin += p.numel()
            if self.reduce is not None:
                p.grad = part
                continue
            state = self.parts.optimiser.state[p]
            if state.get("momentum_buffer") is not None:
                part.copy_(state["momentum_buffer"])
            state["momentum_buffer"] = part
        self._rate.fill_(float(self.parts.optimiser.param_groups[0]["lr"]))
