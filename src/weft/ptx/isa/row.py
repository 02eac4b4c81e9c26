"""The row of an instruction, and what follows from its columns."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from typing import Any

from weft.ptx.isa.columns import (
    Accepts,
    Async,
    AsyncStep,
    Completion,
    Control,
    Does,
    Effect,
    InstructionWork,
    Nan,
    Ordering,
    Participants,
    Per,
    ResultForm,
    Waits,
)
from weft.records import dataclass

RowFunction = Callable[..., Any]


@dataclass(frozen=True)
class OperandSpec:
    """One operand as the row declares it.

    type    a type, or the modifier that names it; "" where the row's function knows
    pair    the second destination of `d|p`
    memory  an address in brackets
    """

    name: str
    type: str
    double: bool = False
    optional: bool = False
    pair: str = ""
    memory: bool = False

    @property
    def is_dest(self) -> bool:
        return self.name in ("d", "p")


@dataclass(frozen=True)
class InstructionRow:
    """Everything about one instruction."""

    syntax: str
    base: str
    parts: tuple[tuple[str, bool], ...]
    modifiers: Mapping[str, frozenset[str]]
    operands: tuple[OperandSpec, ...]
    function: RowFunction
    manual: str
    vectors: tuple[str, ...] = ()
    warp: bool = False
    notes: str = ""
    has_dest: bool = True
    form: ResultForm = ResultForm.OTHER
    nans: Nan = Nan.CANONICAL
    work: InstructionWork = field(default_factory=InstructionWork)
    effects: tuple[Effect, ...] = ()
    participants: Participants = Participants.LANE
    waits: Waits = Waits.NOTHING
    async_: Async | None = None
    control: Control = Control.NEXT
    ordering: Ordering = Ordering.WEAK
    aligned: bool = False
    accepts: Accepts = Accepts.NOTHING
    literals: Mapping[str, Sequence[int]] = field(default_factory=dict)
    accumulates: bool = False
    peers: bool = False

    def match(self, parts: Sequence[str]) -> dict[str, str] | None:
        """The modifiers' words when the opcode is of this row, else None."""
        free = list(self.parts)
        words = {name: "" for name in self.modifiers}
        for word in parts[1:]:
            for i, (name, _) in enumerate(free):
                if word in self.modifiers[name] if name in self.modifiers else word == name:
                    if name in self.modifiers:
                        words[name] = word
                    del free[i]
                    break
            else:
                return None
        return words if all(optional for _, optional in free) else None

    @property
    def is_load(self) -> bool:
        """Each lane loads registers from an address of its own."""
        return self.form is ResultForm.LOADED

    @functools.cached_property
    def is_store(self) -> bool:
        """Each lane stores registers to an address of its own."""
        return self.async_ is None and any(
            x.does is Does.WRITE and x.per is Per.LANE and not x.barrier for x in self.effects
        )

    @functools.cached_property
    def is_atomic(self) -> bool:
        """Each lane changes data at an address of its own in one step."""
        return self.async_ is None and any(
            x.does is Does.UPDATE and not x.barrier for x in self.effects
        )

    @functools.cached_property
    def completes_by(self) -> Completion | None:
        """The event that completes its accesses; None: they are complete when it is."""
        issues = self.async_ is not None and self.async_.step is AsyncStep.ISSUE
        return self.async_.by if self.async_ is not None and issues else None

    @functools.cached_property
    def polls(self) -> bool:
        """True if a loop around the instruction may be waiting for another thread."""
        return self.waits.polls

    @functools.cached_property
    def writes(self) -> bool:
        """True if it changes memory, at once or when it completes."""
        return any(x.writes for x in self.effects)

    @functools.cached_property
    def written(self) -> tuple[OperandSpec, ...]:
        """The operands that the text of an instruction has, in its order."""
        return tuple(x for x in self.operands if x.name != "cc")

    def position(self, name: str) -> int:
        """The position of an operand in the text of an instruction."""
        return self._positions[name]

    @functools.cached_property
    def _positions(self) -> dict[str, int]:
        return {x.name: i for i, x in reversed(list(enumerate(self.written)))}

    def operand_type(self, spec: OperandSpec, words: Mapping[str, str]) -> str:
        """The PTX type of an operand of this row under the given modifiers."""
        kind = words.get(spec.type, spec.type)
        if not spec.double:
            return kind
        return f"{kind[0]}{2 * int(kind[1:])}"
