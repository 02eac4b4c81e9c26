"""The stored tensors of one linear layer, checked as they are read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import torch

from weft.errors import ArgumentError
from weft.quant.checkpoint import Stored

FLOATS = ("F32", "F16", "BF16")


@dataclass(frozen=True)
class Source:
    """The tensors of a linear layer in a checkpoint.

    name      the layer's name in the checkpoint, before the names of its tensors
    shape     of its weight: rows, which are outputs, and columns
    dtype     of the model, which the weight is dequantised to
    tensors   of the whole checkpoint
    metadata  texts in the headers of its files
    used      the keys that were read, for all layers together
    """

    name: str
    shape: tuple[int, int]
    dtype: torch.dtype
    tensors: Mapping[str, Stored]
    metadata: Mapping[str, str] = field(default_factory=dict)
    used: set[str] = field(default_factory=set)

    def key(self, part: str) -> str:
        """The key of one of its tensors."""
        return f"{self.name}.{part}"

    def has(self, part: str) -> bool:
        """True if the checkpoint has this tensor."""
        return self.key(part) in self.tensors

    def dtype_of(self, part: str) -> str:
        """The dtype of a tensor by its name in the header, or ""."""
        return self.tensors[self.key(part)].dtype if self.has(part) else ""

    def shape_of(self, part: str) -> tuple[int, ...]:
        """The shape of a tensor; raise if it is not there."""
        return self._stored(part).shape

    def take(self, part: str, dtypes: tuple[str, ...], *shapes: tuple[int, ...]) -> torch.Tensor:
        """Read a tensor; raise unless it has one of the dtypes and one of the shapes."""
        stored = self._stored(part)
        if stored.shape not in shapes:
            raise ArgumentError(
                f"'{stored.key}' has another shape than its layer and config.json say",
                where=str(stored.file),
                got=str(list(stored.shape)),
                allowed=" or ".join(str(list(shape)) for shape in shapes),
                next=f"the weight is {self.shape[0]} x {self.shape[1]}: compare its groups and"
                " bits with the quantization_config",
            )
        if stored.dtype not in dtypes:
            raise ArgumentError(
                f"'{stored.key}' has another dtype than its layout",
                where=str(stored.file),
                got=stored.dtype,
                allowed=", ".join(dtypes),
            )
        self.used.add(self.key(part))
        return stored.read(dtypes)

    def error(self, what: str, got: str, allowed: str = "", next: str = "") -> ArgumentError:
        """Make the error of a layer whose tensors do not fit each other."""
        file = file_of(self.tensors, self.name)
        return ArgumentError(
            what, where=f"{file}: {self.name}", got=got, allowed=allowed, next=next
        )

    def _stored(self, part: str) -> Stored:
        key = self.key(part)
        if key not in self.tensors:
            raise ArgumentError(
                f"the checkpoint lacks '{key}'",
                where=file_of(self.tensors, self.name),
                next="download the model again, or quantise it again",
            )
        return self.tensors[key]


def file_of(tensors: Mapping[str, Stored], name: str) -> str:
    """The file of a layer's tensors, or of any."""
    near = (s.file for key, s in tensors.items() if key.startswith(f"{name}."))
    found = next(near, None) or next((s.file for s in tensors.values()), "")
    return str(found)
