"""The functions that a function is cut into, and the one that calls them in turn.

A part is called with the number of the block where it starts. It returns the number of the
block that follows in another part, or what the whole function returns, plus `_RETURNED`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import field

from weft.ir.cut.read import LABEL, FunctionCode, IrBlock
from weft.ir.shared_functions import NAME
from weft.ir.slots import load, size, store
from weft.records import dataclass

_HEAD = re.compile(r"define internal (.*) @([\w.]+)\((.*)\) (#\d+) \{")
_TYPES = (
    re.compile(r"load (\w+|<[^>]+>),"),
    re.compile(r"(?:trunc|zext|sext|inttoptr|ptrtoint|bitcast) .* to (.+)"),
    re.compile(r"(?:add|sub|mul|and|or|xor|shl|lshr|ashr|udiv|urem)(?: n[us]w)* (\w+|<[^>]+>) "),
)
"""The type of an instruction's result: the first blocks of kernels have no others."""
_RETURNED = 1 << 30
_PART = 16
"""A block's number has its part above this bit, and its number in the part below."""
_MEMORY, _AT = "%part.memory", "%part.at"


class CannotCut(Exception):
    """A function that cannot be cut."""


@dataclass(slots=True)
class _Layout:
    """The locations in memory of the variables and values that several parts use."""

    offsets: dict[str, int] = field(default_factory=dict)
    size: int = 0

    def address(self, name: str, kind: str, result: str) -> str:
        """The line that computes the address of `name`."""
        if name not in self.offsets:
            align = _align(kind)
            self.offsets[name] = -(-self.size // align) * align
            self.size = self.offsets[name] + size(kind)
        return f"  {result} = getelementptr i8, ptr {_MEMORY}, i64 {self.offsets[name]}"


def write(code: FunctionCode, parts: list[list[IrBlock]]) -> str:
    """The text of all functions; raises Unsupported."""
    return _PartWriter(code, parts).text()


class _PartWriter:
    def __init__(self, code: FunctionCode, parts: list[list[IrBlock]]) -> None:
        head = _HEAD.match(code.head)
        if head is None:
            raise CannotCut(code.head)
        self.kind, self.name, self.parameters, self.attributes = head.groups()
        self.code, self.parts = code, parts
        self.layout = _Layout()
        self.variables = list(code.variables.items())
        self.bits = {name: 1 << i for i, name in enumerate(code.variables)}
        self.blocks = {block.label: block for block in code.blocks}
        self.part_of = {block.label: i for i, part in enumerate(parts) for block in part}
        self.entered: list[dict[str, int]] = [{} for _ in parts]
        """For each part, the labels that others branch to, and their numbers."""
        self._enter_from(-1, [code.entry])

    def _enter_from(self, number: int, blocks: Iterable[IrBlock]) -> None:
        """Record where a part enters others. A part that is never entered is not written."""
        waiting = [(number, blocks)]
        while waiting:
            number, blocks = waiting.pop()
            for label in (x for block in blocks for x in block.targets):
                other = self.part_of[label]
                if other != number:
                    if not self.entered[other]:
                        waiting.append((other, self.parts[other]))
                    self.entered[other].setdefault(label, len(self.entered[other]))

    def text(self) -> str:
        parts = [self._part(i) for i, entered in enumerate(self.entered) if entered]
        return "\n".join([*parts, self._caller()])

    def _part(self, number: int) -> str:
        blocks = self.parts[number]
        names = set[str]().union(*(block.names for block in blocks))
        entered = self.entered[number]
        cases = " ".join(f"i32 {i}, label %part.in.{i}" for i in entered.values())
        out = [
            f"define internal {self.kind} @{self.name}.{number}"
            f"({self.parameters}, ptr noalias {_MEMORY}, i32 {_AT}) {self.attributes} {{",
            "entry:",
            *self._variables(names),
            *self._values(names),
            f"  %part.block = and i32 {_AT}, {(1 << _PART) - 1}",
            f"  switch i32 %part.block, label %part.in.0 [ {cases} ]",
        ]
        used = sum(self.bits.get(x, 0) for x in names)
        for label, i in entered.items():
            out.append(f"part.in.{i}:")
            for name, kind in self._named(self.blocks[label].live & used):
                value = f"{name}.in.{i}"
                out.append(self.layout.address(name, kind, f"{value}.p"))
                out.append(load(kind, value, _align(kind)))
                out.append(f"  store {kind} {value}, ptr {name}")
            out.append(f"  br label %{label}")
        exits: dict[str, str] = {}
        for block in blocks:
            last = self._last(number, block, exits)
            out += [f"{block.label}:", block.body + last]
        for label, name in exits.items():
            out += [f"{name}:", *self._leave(label, name, blocks)]
            out.append(f"  ret i32 {self._number(label)}")
        return "\n".join([*out, "}"])

    def _caller(self) -> str:
        entry = self.code.entry
        exits: dict[str, str] = {}
        last = self._last(-1, entry, exits)
        out = [entry.body.rstrip()]
        for name in self.code.values:
            if name in self.layout.offsets:
                kind = _type(self.code.values[name])
                out += [self.layout.address(name, kind, f"{name}.p"), store(kind, name, 8)]
        out.append(last)
        for label, name in exits.items():
            out += [f"{name}:", *self._leave(label, name, [entry]), "  br label %part.next"]
        calls = {i: f"part.call.{i}" for i, entered in enumerate(self.entered) if entered}
        numbers = [f"[ {self._number(x)}, %{name} ]" for x, name in exits.items()]
        cases = " ".join(f"i32 {i}, label %{x}" for i, x in calls.items())
        arguments = f"{self.parameters}, ptr {_MEMORY}, i32 {_AT}"
        out += [
            "part.next:",
            f"  {_AT} = phi i32 {', '.join(numbers)}, [ %part.result, %part.done ]",
            f"  %part.number = lshr i32 {_AT}, {_PART}",
            f"  switch i32 %part.number, label %part.none [ {cases} ]",
        ]
        for i, label in calls.items():
            out += [
                f"{label}:",
                f"  %part.{i} = call {self.kind} @{self.name}.{i}({arguments})",
                "  br label %part.done",
            ]
        results = ", ".join(f"[ %part.{i}, %{x} ]" for i, x in calls.items())
        out += [
            "part.done:",
            f"  %part.result = phi i32 {results}",
            f"  %part.leaves = icmp ult i32 %part.result, {_RETURNED}",
            "  br i1 %part.leaves, label %part.next, label %part.end",
            "part.none:",
            "  unreachable",
            "part.end:",
            f"  %part.status = sub i32 %part.result, {_RETURNED}",
            "  ret i32 %part.status",
        ]
        head = [self.code.head, "entry:", *self._variables(entry.names)]
        memory = f"  {_MEMORY} = alloca [{self.layout.size} x i8], align 64"
        return "\n".join([*head[:2], memory, *head[2:], *out, "}"])

    # ---- branches ---------------------------------------------------------------------------
    def _number(self, label: str) -> int:
        part = self.part_of[label]
        return part << _PART | self.entered[part][label]

    def _last(self, number: int, block: IrBlock, exits: dict[str, str]) -> str:
        """The end of a block in its part; adds the exits that it leads to."""
        if block.last.startswith("  ret "):
            returned = f"%{block.label}.returned"
            value = block.last.removeprefix("  ret i32 ")
            return f"  {returned} = add i32 {value}, {_RETURNED}\n  ret i32 {returned}"

        def target(match: re.Match[str]) -> str:
            label = match[1]
            if self.part_of[label] == number:
                return match[0]
            return f"label %{exits.setdefault(label, f'part.out.{len(exits)}')}"

        return LABEL.sub(target, block.last)

    def _leave(self, label: str, name: str, blocks: Iterable[IrBlock]) -> Iterator[str]:
        """Store the variables that `blocks` may have set and that are live at a label."""
        written = 0
        for block in blocks:
            written |= block.writes
        for variable, kind in self._named(self.blocks[label].live & written):
            value = f"{variable}.{name}"
            yield f"  {value} = load {kind}, ptr {variable}"
            yield self.layout.address(variable, kind, f"{value}.p")
            yield store(kind, value, _align(kind))

    # ---- variables and values ---------------------------------------------------------------
    def _variables(self, names: set[str]) -> list[str]:
        own = [f"  {n} = alloca {k}" for n, k in self.variables if n in names]
        shared = self.code.memory.items()
        return own + [self.layout.address(n, k, n) for n, k in shared if n in names]

    def _values(self, names: set[str]) -> list[str]:
        """The results of the first block."""
        needed = set(names)
        out = []
        for name, instruction in reversed(self.code.values.items()):
            if name not in needed:
                continue
            if instruction.startswith("getelementptr "):
                # Computed again: LLVM then knows what it may be an alias of.
                needed.update(NAME.findall(instruction))
                out.append(f"  {name} = {instruction}")
            else:
                kind = _type(instruction)
                out.append(load(kind, name, 8))
                out.append(self.layout.address(name, kind, f"{name}.p"))
        return out[::-1]

    def _named(self, bits: int) -> Iterator[tuple[str, str]]:
        """The variables of bits, and their types."""
        while bits:
            lowest = bits & -bits
            yield self.variables[lowest.bit_length() - 1]
            bits ^= lowest


def _align(kind: str) -> int:
    return 64 if size(kind) >= 64 else 8


def _type(instruction: str) -> str:
    for pattern in _TYPES:
        match = pattern.match(instruction)
        if match is not None:
            return match[1]
    raise CannotCut(instruction)
