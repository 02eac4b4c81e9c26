"""Optimisers for PyTorch: torch's arguments and states, one launch for all parameters of a dtype.

>>> import torch
>>> model = torch.nn.Linear(3, 2)
>>> optimiser = weft.optim.AdamW(model.parameters(), lr=1e-2)
>>> model(torch.ones(1, 3)).sum().backward()
>>> optimiser.step()

table.py    lists of tensors as a table in the device's memory
layouts.py  whether tensors have the layouts that they had
bucket.py   the parameters of one launch, their gradients and states
scalars.py  numbers in arguments or in the device's memory
base.py     what the optimisers share
adam.py     Adam, AdamW
sgd.py      SGD
clip.py     clip_grad_norm_
sharded.py  parameters that FSDP has divided over processes
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from weft.ops.core.bind import deferred

if TYPE_CHECKING:
    from weft.optim.adam import Adam, AdamW
    from weft.optim.clip import clip_grad_norm_
    from weft.optim.sgd import SGD

__all__ = ["SGD", "Adam", "AdamW", "clip_grad_norm_"]

_HOME = {"Adam": "adam", "AdamW": "adam", "SGD": "sgd", "clip_grad_norm_": "clip"}
__getattr__, __dir__ = deferred.attributes(__name__, _HOME, __all__)
