"""Blocks, branches and variables of a function in LLVM's text, as weft writes it."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Set
from dataclasses import field
from itertools import accumulate

from weft.ir.shared_functions import NAME
from weft.records import dataclass

LABEL = re.compile(r"label %([\w.]+)")
_BLOCK = re.compile(r"^([\w.]+):\n", re.MULTILINE)
_VALUE = re.compile(r"^  (%[\w.]+) = (.*)", re.MULTILINE)
_VARIABLE = re.compile(r"^  (%[\w.]+) = alloca (.+?)(?:, align \d+)?$", re.MULTILINE)
_TYPE = r"(<[^>]*>|\[[^]]*\]|\w+)"
_ACCESS = re.compile(
    rf"^  (?:%[\w.]+ = load {_TYPE}|store {_TYPE} .*), ptr (%[\w.]+)(?:, align \d+)?$", re.MULTILINE
)


@dataclass(slots=True)
class IrBlock:
    """A basic block.

    body     its lines, each with its end, without the last one
    last     the last line: a branch, a switch or a return
    targets  the labels that it leads to
    names    the names in it, without the targets
    reads    variables that it reads before it sets them, as bits
    writes   variables that it sets, as bits
    live     variables that may be read before they are set, from its start on, as bits
    local    no other block uses its results
    """

    label: str
    body: str
    last: str
    targets: list[str]
    names: set[str]
    reads: int = 0
    writes: int = 0
    live: int = 0
    local: bool = False

    @property
    def lines(self) -> int:
        """The number of its lines, with its label and the last line."""
        return self.body.count("\n") + 2


@dataclass(slots=True)
class FunctionCode:
    """A function.

    entry      the first block, without the lines that make the variables
    variables  those that are only loaded and stored, and their types: LLVM makes registers of them
    memory     those whose addresses are passed on, and their types
    values     the results of the first block: names, and the instructions
    joined     for each block, whether it must be in one function with the block before it
    """

    head: str
    entry: IrBlock
    blocks: list[IrBlock]
    variables: dict[str, str]
    memory: dict[str, str]
    values: dict[str, str]
    joined: list[bool] = field(default_factory=list)


def read(text: str) -> FunctionCode:
    """The parts of a function."""
    text = _hold_offsets(text)
    first = _first_lines(text)
    kinds = dict(_VARIABLE.findall(first))
    head = text[: text.index("\n")]
    entry, *blocks = _blocks("entry:\n" + text[len(first) : -2])
    accesses = [list(_accesses(block, kinds)) for block in (entry, *blocks)]
    whole = Counter(variable for block in accesses for variable, _ in block)
    mentions = Counter(NAME.findall(text))
    # One mention is the line that makes it.
    variables = {x: kind for x, kind in kinds.items() if mentions[x] == whole[x] + 1}
    bits = {name: 1 << i for i, name in enumerate(variables)}
    for block, loads_and_stores in zip((entry, *blocks), accesses, strict=True):
        _note(block, loads_and_stores, bits)
    memory = {x: kind for x, kind in kinds.items() if x not in variables}
    code = FunctionCode(head, entry, blocks, variables, memory, dict(_VALUE.findall(entry.body)))
    _find_joined(code, kinds.keys() | code.values.keys() | set(NAME.findall(head)))
    _find_live(code)
    return code


def _first_lines(text: str) -> str:
    """The head of a function and the variables."""
    return text[: text.index("\n", text.rindex(" = alloca ")) + 1]


def _hold_offsets(text: str) -> str:
    """Replace addresses inside a parameter without aliases by offsets in their variables.

    A function that loads an address from memory would not know that it has no aliases.
    """
    base = re.search(r"ptr noalias (%[\w.]+)", text[: text.index("\n")])
    if base is None:
        return text
    address = rf"(%[\w.]+) = getelementptr i8, ptr {base[1]}, i64 (%[\w.]+)\n"
    offsets = dict(re.findall(address, text))
    for variable, kind in _VARIABLE.findall(_first_lines(text)):
        if kind == "ptr":
            text = _hold_offset(text, base[1], variable, offsets)
    return text


def _hold_offset(text: str, base: str, variable: str, offsets: dict[str, str]) -> str:
    store = re.compile(rf"\n  store ptr (%[\w.]+), ptr {variable}(?=\n)")
    load = re.compile(rf"\n  (%[\w.]+) = load ptr, ptr {variable}(?=\n)")
    stored = store.findall(text)
    mentions = len(re.findall(rf"{variable}(?![\w.])", text))
    if not offsets.keys() >= set(stored) or mentions != 1 + len(stored) + len(load.findall(text)):
        return text
    text = text.replace(f"  {variable} = alloca ptr\n", f"  {variable} = alloca i64\n", 1)
    text = store.sub(lambda m: f"\n  store i64 {offsets[m[1]]}, ptr {variable}", text)
    return load.sub(
        rf"\n  \1.at = load i64, ptr {variable}\n  \1 = getelementptr i8, ptr {base}, i64 \1.at",
        text,
    )


def _blocks(text: str) -> Iterator[IrBlock]:
    _, *pieces = _BLOCK.split(text)
    for label, lines in zip(pieces[::2], pieces[1::2], strict=True):
        body, end, last = lines.rstrip().rpartition("\n")
        names = set(NAME.findall(f"{body} {LABEL.sub('', last)}"))
        yield IrBlock(label, body + end, last, LABEL.findall(last), names)


def _accesses(block: IrBlock, kinds: dict[str, str]) -> Iterator[tuple[str, bool]]:
    """Loads and stores of whole variables in order, and whether each is a store."""
    for loaded, stored, variable in _ACCESS.findall(block.body):
        if kinds.get(variable) == (stored or loaded):
            yield variable, bool(stored)


def _note(block: IrBlock, accesses: list[tuple[str, bool]], bits: dict[str, int]) -> None:
    for variable, stored in accesses:
        bit = bits.get(variable, 0)
        if stored:
            block.writes |= bit
        else:
            block.reads |= bit & ~block.writes


def _find_joined(code: FunctionCode, everywhere: Set[str]) -> None:
    """Find blocks that must be in one function, since a value is computed and used there."""
    # Where values are merged (`phi`), labels are mentioned.
    mentioned = [{f"%{block.label}"} | block.names - everywhere for block in code.blocks]
    first: dict[str, int] = {}
    last: dict[str, int] = {}
    for i, names in enumerate(mentioned):
        for name in names:
            first.setdefault(name, i)
            last[name] = i
    shared = {name for name, i in last.items() if first[name] != i}
    steps = [0] * (len(code.blocks) + 1)
    for name in shared:
        steps[first[name] + 1] += 1
        steps[last[name] + 1] -= 1
    code.joined = [depth > 0 for depth in accumulate(steps[:-1])]
    for block, names in zip(code.blocks, mentioned, strict=True):
        block.local = names.isdisjoint(shared)


def _find_live(code: FunctionCode) -> None:
    place = {block.label: block for block in code.blocks}
    following = [[place[x] for x in block.targets] for block in code.blocks]
    changed = True
    while changed:
        changed = False
        for block, targets in zip(reversed(code.blocks), reversed(following), strict=True):
            live = 0
            for target in targets:
                live |= target.live
            live = live & ~block.writes | block.reads
            if live != block.live:
                block.live, changed = live, True
