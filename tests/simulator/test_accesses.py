"""Every row of the table that touches memory is seen by every tool.

The rows are taken from the table, so that a new one fails here until checks, counters, sanitizer
and the search for writers know of it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

import numpy as np
import pytest

import weft
from support.memory_rows import REGION, REGIONS, Case, cases, is_tensor_copy, module
from weft.device.sim.access import AccessUnit, MemoryAccess
from weft.device.sim.address import SPACES
from weft.device.sim.emit.generate import generate
from weft.device.sim.layout import Space
from weft.device.sim.observe import Watched, Watcher
from weft.device.sim.run.draft import drafts
from weft.device.sim.tools.counters.counting import Counting
from weft.device.sim.tools.sanitizer.observer import Sanitizer
from weft.device.sim.tools.touches import TouchRecorder
from weft.device.sim.tools.writers import Writers
from weft.kernels import Kernel
from weft.kernels.launch import Launch
from weft.measure.profile import aggregate
from weft.ptx.isa import rows
from weft.ptx.isa.columns import Completion
from weft.ptx.parse import parse

CASES = cases()
NAMES = {**{space: word for word, space in SPACES.items()}, Space.SHARED: "shared"}
NAMES[Space.GENERIC] = "generic"
ALL = -1
NONE = len(CASES)
READ_ONLY = ("param", "const")
"""Nothing can be uninitialised or raced for there, and it costs no sectors and no wavefronts."""
LONG = {"const": "constant", "param": "parameter"}
"""Spaces that messages name in full."""
MORE = bytes(REGION // 4)


@pytest.fixture(scope="module")
def kernel() -> Iterator[Kernel]:
    with drafts():  # each tool compiles all rows once
        yield weft.load_ptx(module(CASES), device="sim:h200").kernel("k")


@pytest.fixture
def data() -> np.ndarray:
    return np.zeros(REGIONS * REGION, np.uint8)


def test_each_row_that_touches_memory_has_a_case() -> None:
    touching = {id(r) for r in rows() if r.effects and not is_tensor_copy(r)}
    assert {id(c.row) for c in CASES} == touching


# ---- what is described -------------------------------------------------------------------------
class Recorder(Watcher):
    """Keeps the accesses of each instruction while code is made."""

    def __init__(self, e: Watched) -> None:
        super().__init__(e)
        self.seen: dict[str, list[MemoryAccess]] = defaultdict(list)

    def access(self, access: MemoryAccess) -> None:
        self.seen[access.ins.text].append(access)


class Recording:
    key = "test record"

    def watcher(self, e: Watched) -> Watcher:
        self.recorder = Recorder(e)
        return self.recorder


@pytest.fixture(scope="module")
def recorded() -> dict[str, list[MemoryAccess]]:
    parsed, recording = parse(module(CASES)), Recording()
    generate(parsed, "k", (32, 1, 1), observer=recording)
    return recording.recorder.seen


@pytest.mark.parametrize("case", CASES, ids=lambda c: c.opcode)
def test_accesses_are_the_effects_of_the_row(
    case: Case, recorded: dict[str, list[MemoryAccess]]
) -> None:
    seen = recorded[case.text]
    expected = [
        (effect.reads, effect.writes, space)
        for effect, space in zip(case.row.effects, case.spaces, strict=True)
    ]
    assert sorted((a.reads, a.writes, NAMES[a.space]) for a in seen) == sorted(expected)
    data = [a for a in seen if a.unit is not AccessUnit.MBARRIER]
    assert all(a.waits is case.row.completes_by for a in data)


# ---- what the tools see ------------------------------------------------------------------------
EFFECTS = [(i, k) for i, c in enumerate(CASES) for k in range(len(c.row.effects))]


@pytest.mark.parametrize(
    ("number", "effect"), EFFECTS, ids=[f"{CASES[i].opcode}-{k}" for i, k in EFFECTS]
)
def test_a_fault_says_what_the_access_was(
    number: int, effect: int, kernel: Kernel, data: np.ndarray
) -> None:
    case = CASES[number]
    with pytest.raises(weft.IllegalAddress) as caught:
        kernel[1, 32](data, number, effect, MORE)
    verb = "write" if case.row.effects[effect].writes else "read"
    space = LONG.get(case.spaces[effect], case.spaces[effect])
    assert (caught.value.access, caught.value.space) == (verb, space)


def test_all_are_counted(kernel: Kernel, data: np.ndarray) -> None:
    counting = Counting(l1_lines=1024, resident=132)
    kernel[1, 32].observe(counting, data, ALL, ALL, MORE)
    assert counting.counts is not None
    counted = {
        i.text: {a.space for a in i.accesses if a.bytes}
        for i in aggregate.instructions(counting.counts)
    }
    for case in CASES:
        if any(word.startswith("mbarrier") for word in case.opcode.split(".")[:3]):
            continue  # the counters of the hardware show no barrier objects
        for space in case.spaces:
            if space not in READ_ONLY:
                alternatives = {"global", "shared"} if space == "generic" else {space}
                if space == "shared" and case.row.completes_by is Completion.MBARRIER:
                    alternatives |= {"cluster"}  # asynchronous stores go through the network
                assert counted[case.text] & alternatives, case.text


def test_all_are_sanitized(kernel: Kernel, data: np.ndarray) -> None:
    launch, sanitizer = kernel[1, 32], Sanitizer()
    before = _checked(launch, sanitizer, data, NONE)
    for number, case in enumerate(CASES):
        lanes = 8 if case.row.base in ("ldmatrix", "stmatrix") else 32
        touched = sum(space not in READ_ONLY for space in case.spaces)
        seen = _checked(launch, sanitizer, data, number) - before
        assert seen == lanes * touched, case.text


def _checked(launch: Launch, sanitizer: Sanitizer, data: np.ndarray, number: int) -> int:
    """Accesses that the sanitizer has looked at while one instruction ran."""
    launch.observe(sanitizer, data, number, ALL, MORE)
    seen = sanitizer.take()
    assert seen is not None
    return seen.counts.accesses


def test_threads_that_write_and_read_are_found(kernel: Kernel, data: np.ndarray) -> None:
    threads = {(0, thread) for thread in range(32)}
    whole, first = Writers([(data.ctypes.data, data.nbytes)]), Writers([(data.ctypes.data, 4)])
    kernel[1, 32].observe(whole, data, ALL, ALL, MORE)
    assert whole.writers() == whole.readers() == threads and whole.writing_launches() == 1
    kernel[1, 32].observe(first, data, ALL, ALL, MORE)
    assert len(first.writers()) == 1, "the last one"
    nothing = Writers([(data.ctypes.data, data.nbytes)])
    kernel[1, 32].observe(nothing, data, NONE, ALL, MORE)
    assert nothing.writers() == set() and nothing.writing_launches() == 0


def test_all_writers_are_found(kernel: Kernel, data: np.ndarray) -> None:
    writers = TouchRecorder(data.ctypes.data, 4)
    kernel[1, 32].observe(writers, data, ALL, ALL, MORE)
    lines = " ".join(write.line for write in writers.seen)
    for case in CASES:
        for effect, space in zip(case.row.effects, case.spaces, strict=True):
            if effect.writes and space in ("global", "generic"):
                assert case.text in lines, case.text
