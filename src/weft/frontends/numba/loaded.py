"""Loads one overload of a Numba kernel on the simulated GPU."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from weft.device.base import Allocation
from weft.frontends.numba.arguments import Packer
from weft.frontends.numba.image import NumbaImage
from weft.kernels import Kernel


class Loaded(Kernel):
    """A kernel whose arguments are packed in Numba's way."""

    def __init__(
        self,
        image: NumbaImage,
        names: Sequence[str],
        types: Sequence[Any],
        captured: Sequence[Any],
        reachable: Callable[[], list[Allocation]],
    ) -> None:
        name, entry = next(iter(image.program.ptx.entries.items()))
        super().__init__(image.program, image.model, entry, name, image.measure)
        params, size = self.summary.params, self.summary.param_bytes
        self._numba = Packer(name, names, types, params, size, captured, reachable)
        self._image = image
        image.add(self)

    @property
    def packer(self) -> Any:
        return self._numba

    def status(self, what: str) -> NDArray[np.int32]:
        """A variable in which a kernel compiled with debug=True stores an exception."""
        return self._image.variable(f"{self.entry}__{what}__").view(np.int32)
