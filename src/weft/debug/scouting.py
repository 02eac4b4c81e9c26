"""Finds out quickly whether a launch meets a condition, and in which block first.

Code for the debugger is not optimised. A launch whose breakpoints all have conditions therefore
first runs in optimised code of the same source, in which a test stands before the lines: a hit is
a trap. Without a hit, its results stay, if that code rounds as the launch's own code does; else the
launch runs again as it would have. With a hit, the blocks before it run as they would have, and the
debugger begins with the block of the hit.

The launch may have to begin again, so memory is copied before. Only arrays that the kernel writes
are: an array is taken as read-only until a write to it faults.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import re
import weakref
from collections import Counter
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from weft.debug.breakpoints import Breakpoint
from weft.device.base import Allocation, Program
from weft.device.sim.device import SimDevice
from weft.device.sim.run.launch import LaunchPlan
from weft.device.sim.run.module import SimModule
from weft.device.sim.run.settings import LaunchRequest
from weft.device.sim.tools.debugger.execution import silent
from weft.errors import CompileError, DeviceError, IllegalAddress

_builds: weakref.WeakKeyDictionary[Program, dict[str, Program | None]] = weakref.WeakKeyDictionary()
_written: weakref.WeakKeyDictionary[Program, dict[str, set[int]]] = weakref.WeakKeyDictionary()
"""The arrays that each kernel has been seen to write, by their numbers in a launch's memory."""
_ROUNDS = re.compile(
    r"^\s*(?:@!?%\w+\s+)?((?!ld|st|mov|setp|set\.|selp|neg|abs|atom|red|shfl)[a-z]\w*[.:\w]*"
    r"\.(?:b?f16|b?f16x2|f32|f64|f32x2|tf32|e\dm\d)\w*[.:\w]*)\s",
    re.M,
)
"""Instructions of PTX that may round."""
_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.S)


Buffers = dict[int, NDArray[np.uint8]]
"""Copies of memory by its address; pages that are there already are quickly written again."""


def scout(asked: LaunchRequest, breakpoints: Sequence[Breakpoint], buffers: Buffers) -> int | None:
    """The number of the first block to debug; None if the launch has run without a hit."""
    sim = asked.plan.sim
    if any(b.node is None for b in breakpoints) or sim.root.allocates:
        return 0
    with_tests = _with_tests(sim, breakpoints)
    if with_tests is None:
        return 0
    return _Scout(asked, with_tests, buffers).run()


class _Scout:
    def __init__(self, asked: LaunchRequest, with_tests: SimModule, buffers: Buffers) -> None:
        self.asked, self.sim = asked, with_tests
        plan = asked.plan
        self.quick = LaunchPlan(with_tests, plan.entry, plan.config)
        self._rounds_alike = rounds_alike(plan.sim.program.ptx.text, with_tests.program.ptx.text)
        self._written = _written.setdefault(with_tests.program, {}).setdefault(plan.entry, set())
        self._memory = buffers
        plan.sim.place()

    def _copy(self) -> None:
        """Copy the memory that the launch may write."""
        asked, buffers = self.asked, self._memory
        chosen = [x for i, x in enumerate(asked.memory) if i in self._written]
        every = (*chosen, *asked.plan.sim.owned())
        sizes: dict[int, int] = {}
        for x in every:  # a view and the memory around it may begin at one address
            if x.writable and x.nbytes:
                sizes[x.address] = max(x.nbytes, sizes.get(x.address, 0))
        for address in buffers.keys() - sizes.keys():
            del buffers[address]
        for address, size in sizes.items():
            if address not in buffers or buffers[address].nbytes != size:
                buffers[address] = np.empty(size, np.uint8)
            ctypes.memmove(buffers[address].ctypes.data, address, size)

    def run(self) -> int | None:
        error = self._try(None)
        if error is None:
            if not self._rounds_alike:
                self._restore()
                self._run_plain(None)
            return None
        if not self._can_be_split or error.block is None:
            self._restore()
            return 0
        grid = self.asked.plan.config.grid
        x, y, z = error.block
        first = x + grid[0] * (y + grid[1] * z)
        # Host threads take blocks as they come: an earlier one may have a hit, too.
        while first and (error := self._try(range(first))) is not None:
            x, y, z = error.block or (0, 0, 0)
            first = x + grid[0] * (y + grid[1] * z)
        if first:
            self._run_plain(range(first))
        return first

    @property
    def _can_be_split(self) -> bool:
        info = self.quick.code.info
        together = info.waits or info.clusters or info.grid_barrier
        return not (together or self.quick.is_served)

    def _try(self, blocks: range | None) -> DeviceError | None:
        """Run the code with tests; for a hit, restore the memory and return the error."""
        while True:
            self._copy()
            try:
                with silent(self.sim, True):
                    self._run(self.quick, blocks, self._read_only())
            except DeviceError as error:
                self._restore()
                if not self._learns_from(error):
                    return error
            else:
                if blocks is not None:
                    self._restore()
                return None

    def _run_plain(self, blocks: range | None) -> None:
        """Run blocks in the launch's own code."""
        plan = self.asked.plan
        self._run(LaunchPlan(plan.sim, plan.entry, plan.config), blocks)

    def _read_only(self) -> list[Allocation]:
        """The memory of the launch, in which only the copied arrays can be written."""
        return [
            x._replace(writable=x.writable and i in self._written)
            for i, x in enumerate(self.asked.memory)
        ]

    def _learns_from(self, error: DeviceError) -> bool:
        """Note an array that was written for the first time; False for other errors."""
        if not isinstance(error, IllegalAddress):
            return False
        for i, x in enumerate(self.asked.memory):
            inside = x.address <= error.address < x.address + x.nbytes
            if inside and x.writable and i not in self._written:
                self._written.add(i)
                return True
        return False

    def _run(
        self, plan: LaunchPlan, blocks: range | None, memory: Sequence[Allocation] | None = None
    ) -> None:
        asked = self.asked
        given = asked.memory if memory is None else memory
        plan.run_blocks(asked.params, given, asked.keep, asked.time_limit, blocks=blocks)

    def _restore(self) -> None:
        for address, data in self._memory.items():
            ctypes.memmove(address, data.ctypes.data, data.nbytes)


@functools.lru_cache(maxsize=64)
def rounds_alike(plain: str, tested: str) -> bool:
    """Return whether two builds of a source round in the same instructions, and print nothing.

    The compiler joins a product and a sum where it can; a test between the two may prevent that.
    """
    prints = "vprintf" in tested  # the run with tests discards it
    return not prints and Counter(_ROUNDS.findall(plain)) == Counter(_ROUNDS.findall(tested))


def _with_tests(sim: SimModule, breakpoints: Sequence[Breakpoint]) -> SimModule | None:
    """The module with a test before each line; None where the source does not allow it."""
    program = sim.program
    key = repr([(b.line, b.condition, b.thread, b.block, b.file) for b in breakpoints])
    made = _builds.setdefault(program, {})
    if key not in made:
        made[key] = _build(program, breakpoints)
    build = made[key]
    if build is None:
        return None
    loaded = build.on(SimDevice(sim.model, sim.fast))
    assert isinstance(loaded, SimModule)
    return loaded


def _build(program: Program, breakpoints: Sequence[Breakpoint]) -> Program | None:
    text = program.ptx.sources.get(program.ptx.origin)
    edited = None if text is None else edit(text, breakpoints)
    if edited is None or program.rebuild is None:
        return None
    with contextlib.suppress(CompileError):  # e.g. a variable that the line itself declares
        ptx = program.rebuild([], edited)
        build = Program(ptx, base=program.base or program)
        build.kernels.update(program.kernels)
        return build
    return None


def edit(text: str, breakpoints: Sequence[Breakpoint]) -> str | None:
    """The source with tests; None where a statement cannot stand before a line."""
    lines = text.splitlines(keepends=True)
    for b in breakpoints:
        if b.line is None or b.file is not None or not 0 < b.line <= len(lines):
            return None
        before, line = "".join(lines[: b.line - 1]), lines[b.line - 1]
        with_test = _with_test(before, line, f"if ({_expression(b)}) __trap();")
        if with_test is None:
            return None
        lines[b.line - 1] = with_test
    return "".join(lines)


def _expression(b: Breakpoint) -> str:
    parts = [f"({b.condition})"] if b.condition.strip() else []
    for name, index in (("blockIdx", b.block), ("threadIdx", b.thread)):
        parts += [
            f"{name}.{axis} == {value}" for axis, value in zip("xyz", index or (), strict=False)
        ]
    return " && ".join(parts)


def _with_test(before: str, line: str, test: str) -> str | None:
    """A line of a function with a statement before it; None where none can stand there.

    In the body of an `if` or a loop without braces, both statements are put in braces.
    """
    code = _COMMENT.sub(" ", before).rstrip()
    directive = code.rsplit("\n", 1)[-1].lstrip().startswith("#")
    if directive or before.rstrip("\n").endswith("\\") or "/*" in code:
        return None
    if code.endswith((";", "{", "}")):
        return None if line.lstrip()[:1] in ("}", "#", "{", "") else f"{test} {line}"
    statement = _COMMENT.sub(" ", line).strip()
    whole = statement.endswith(";") and statement.count(";") == 1 and "{" not in statement
    if code.endswith(")") or re.search(r"\belse\Z", code):
        return f"{{ {test} {statement} }}\n" if whole else None
    return None
