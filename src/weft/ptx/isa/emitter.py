"""What a warp row may ask of the device that emits code for it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from weft.ir import Builder, Val
from weft.ptx.model import Operand


class Warp(Protocol):
    """The code of one warp under construction; lanes that are not active keep their registers."""

    b: Builder

    def read(self, operand: Operand, ptx_type: str) -> Val:
        """A source: a scalar when all lanes agree, else 32 lanes."""

    def read_lanes(self, operand: Operand, ptx_type: str) -> Val:
        """A source as 32 lanes."""

    def read_vector(self, operand: Operand, ptx_type: str) -> list[Val]:
        """The elements of a `{...}` source (or one register), each as 32 lanes."""

    def write(self, operand: Operand, value: Val) -> None:
        """A destination; a sink is allowed."""

    def write_vector(self, operand: Operand, values: Sequence[Val]) -> None:
        """The elements of a `{...}` destination (or one register)."""

    def active(self) -> Val:
        """The lanes that execute this instruction, `<32 x i1>`."""
