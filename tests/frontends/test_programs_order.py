"""The sanitizer on whole programs: order between streams and host, frees, copies, fresh memory."""

from __future__ import annotations

import ctypes

import numpy as np
import pytest

import nvcc
from folders import TESTS
from weft import sanitize
from weft.device.sim.run import initialised
from weft.device.sim.tools.sanitizer import extents
from weft.frontends import program
from weft.frontends.program.sanitizer import guards, written
from weft.frontends.program.sanitizer.order import PER_THREAD, Order
from weft.frontends.program.sanitizer.touches import Touched

PROGRAM = TESTS / "programs" / "order.cu"


def line_of(text: str) -> int:
    """The only line of the program with this text."""
    lines = [i for i, line in enumerate(PROGRAM.read_text().splitlines(), 1) if text in line]
    assert len(lines) == 1, text
    return lines[0]


FILL, INCREMENT, SUM = "x[i] = value;", "x[i] += 1;", "atomicAdd(out, x[i]);"
STREAMS = "work of two streams touches the same memory"
HOST = "the host touches memory that work under way uses"
FREED = "memory is freed that other work may still use"
UNWRITTEN = "a copy to the host of memory that was never written"
MISTAKES: dict[str, tuple[str, str, tuple[str, ...]]] = {
    "two_kernels": ("data race", STREAMS, (FILL, INCREMENT)),
    "kernel_and_fill": ("data race", STREAMS, ("cudaMemsetAsync in stream 1", INCREMENT)),
    "reader_and_copy": ("data race", STREAMS, (SUM, "cudaMemcpyAsync in stream 2")),
    "beside_the_default_stream": ("data race", STREAMS, (FILL, INCREMENT)),
    "host_reads": ("data race", HOST, (FILL, "the host")),
    "host_writes": ("data race", HOST, (SUM, "the host")),
    "host_reads_copy": ("data race", HOST, ("cudaMemcpyAsync", "the host")),
    "host_changes_copy": ("data race", HOST, ("cudaMemcpyAsync", "the host")),
    "freed_in_another_stream": ("free in flight", FREED, (FILL, "cudaFreeAsync in stream 2")),
    "freed_by_the_host": ("free in flight", FREED, (FILL, "cudaFree")),
    "used_after_free": ("use after free", "was freed before", ("fill<<<",)),
    "copied_after_free": ("use after free", "was freed before", ("cudaMemcpy",)),
    "overlapping": ("overlapping copy", "share bytes", ("cudaMemcpy",)),
    "overlapping_rows": ("overlapping copy", "share bytes", ("cudaMemcpy2D",)),
    "direction": ("invalid copy", "where host memory is meant", ("cudaMemcpy",)),
    "atomics_on_nothing": ("uninitialised", "was never written", (SUM,)),
    "copies_of_nothing": ("uninitialised", UNWRITTEN, ("cudaMemcpy",)),
    "copies_of_copies": ("uninitialised", UNWRITTEN, ("cudaMemcpy",)),
}


@nvcc.needed
@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_is_found(name: str) -> None:
    kind, what, lines = MISTAKES[name]
    with sanitize(raises=False) as report:
        program.run(str(PROGRAM), [name])
    told = [f for f in report.findings if f.kind == kind and what in f.what]
    assert told, str(report)
    found = told[-1]
    assert len(found.accesses) == len(lines), str(found)
    for access, line in zip(found.accesses, lines, strict=True):
        assert line in access.line, str(found)
        if ";" in line:
            assert access.number == line_of(line), str(found)
        else:  # a line of the host's, inside the function that makes the mistake
            body = PROGRAM.read_text().partition(f"void {name}(bool")[2].partition("\n}\n")[0]
            assert PROGRAM.read_text().splitlines()[access.number - 1] in body, str(found)


@nvcc.needed
def test_programs_that_are_right_have_no_findings() -> None:
    with sanitize() as report:
        assert program.run(str(PROGRAM), []) == 0
    assert report.launches > 20


# ---- order --------------------------------------------------------------------------------------
ONE, TWO = 16, 32
NON_BLOCKING = 1


def streams(flags: int = 0) -> Order:
    order = Order()
    order.created(ONE, flags)
    order.created(TWO, flags)
    return order


def test_a_stream_keeps_its_order_and_two_do_not() -> None:
    order = streams()
    a, b, c = order.submitted(ONE), order.submitted(ONE), order.submitted(TWO)
    assert b.after(a) and not a.after(b) and a.concurrent_with(c) and b.concurrent_with(c)


def test_events_order_what_came_before_them_alone() -> None:
    order = streams()
    before = order.submitted(ONE)
    order.recorded(1, ONE)
    later = order.submitted(ONE)
    order.waits(TWO, 1)
    waiting = order.submitted(TWO)
    assert waiting.after(before) and waiting.concurrent_with(later)


def test_order_goes_through_a_third_stream() -> None:
    order = streams()
    order.created(48, 0)
    first = order.submitted(ONE)
    order.recorded(1, ONE)
    order.waits(TWO, 1)
    order.recorded(2, TWO)  # the second stream has no work of its own
    order.waits(48, 2)
    assert order.submitted(48).after(first)


@pytest.mark.parametrize("flags", [0, NON_BLOCKING])
def test_the_default_stream_and_blocking_streams_wait_for_each_other(flags: int) -> None:
    order = streams(flags)
    a, b, c = order.submitted(ONE), order.submitted(0), order.submitted(TWO)
    assert (b.after(a), c.after(b), c.after(a)) == (not flags,) * 3
    own = order.submitted(PER_THREAD)
    assert own.after(b) and own.concurrent_with(c) and order.submitted(0).after(own)


def test_what_the_host_has_waited_for() -> None:
    order = streams(NON_BLOCKING)
    a, b = order.submitted(ONE), order.submitted(TWO)
    assert not order.ended(a)
    order.host_waits_for_stream(ONE)
    assert order.ended(a) and not order.ended(b)
    assert order.submitted(0).after(a), "submitted by a host that knows"
    order.recorded(1, TWO)
    order.host_waits_for_event(1)
    assert order.ended(b)
    last = order.submitted(TWO)
    order.destroyed(TWO)
    order.host_waits_for_stream(ONE)
    assert not order.ended(last)
    order.host_waits_for_all()
    assert order.ended(last)


# ---- bytes --------------------------------------------------------------------------------------
def of(*ranges: tuple[int, int]) -> extents.Extents:
    starts, ends = (np.array([r[i] for r in ranges], np.int64) for i in range(2))
    return extents.of_ranges(starts, ends - starts)


def test_extents_overlap_to_the_byte() -> None:
    seed = 20261115
    print("seed", seed)
    random = np.random.default_rng(seed)
    for _ in range(300):
        edges = [np.sort(random.choice(64, 6, replace=False)) for _ in range(2)]
        a, b = ([(int(e[i]), int(e[i + 1])) for i in (0, 2, 4)] for e in edges)
        shared = {x for s, e in a for x in range(s, e)} & {x for s, e in b for x in range(s, e)}
        hit = extents.overlap(of(*a), of(*b))
        assert (hit is not None) == bool(shared), (a, b)
        if hit is not None:
            assert hit.address // 4 == min(shared) // 4
        for address in range(64):
            inside = any(s <= address < e for s, e in a)
            assert (extents.at(of(*a), address) is not None) == inside


def test_guarded_pages_are_those_that_work_touches() -> None:
    page = guards.PAGE
    work = Order().submitted(0)
    reads, writes = of((page, 3 * page)), of((2 * page + 8, 2 * page + 12))
    rows = guards.rows(0, 4 * page, [Touched(work, "k", None, reads, writes)])
    assert rows == [(page, 2 * page, True), (2 * page, 3 * page, False)]
    assert guards.rows(8 * page, page, [Touched(work, "k", None, reads, writes)]) == []


# ---- memory that was never written -------------------------------------------------------------
WORDS = 64
UNWRITTEN_ROWS = {
    "nothing": ([], 0),
    "all": ([(0, WORDS)], None),
    "the first half": ([(0, WORDS // 2)], 4 * WORDS // 2),
    "a short gap inside": ([(0, 10), (12, WORDS)], None),
    "a long gap inside": ([(0, 10), (20, WORDS)], 40),
    "padding of structures": ([(i, i + 1) for i in range(0, WORDS, 8)], None),
    "padding, and then nothing more": ([(i, i + 1) for i in range(0, WORDS // 2, 8)], 100),
}


@pytest.mark.parametrize(("ranges", "first"), UNWRITTEN_ROWS.values(), ids=UNWRITTEN_ROWS.keys())
def test_unwritten(ranges: list[tuple[int, int]], first: int | None) -> None:
    memory = (ctypes.c_uint8 * (4 * WORDS)).from_buffer(bytearray([written.PATTERN] * 4 * WORDS))
    address = ctypes.addressof(memory)
    initialised.register(address, 4 * WORDS)
    try:
        for start, end in ranges:
            initialised.filled(address + 4 * start, 4 * (end - start))
        found = written.unwritten(address, 4 * WORDS)
        assert (None if found is None else found - address) == first
    finally:
        initialised.forget(address)


def test_copied_bytes_are_as_written_as_their_source() -> None:
    memory = (ctypes.c_uint8 * 256).from_buffer(bytearray([written.PATTERN] * 256))
    one = ctypes.addressof(memory)
    two = one + 128
    for address in (one, two):
        initialised.register(address, 128)
    try:
        initialised.filled(one, 64)
        initialised.copied(two, one, 128)
        assert written.unwritten(two, 64) is None and written.unwritten(two, 128) == two + 64
        initialised.copied(two + 64, 0x1000, 64)  # from memory that is not fresh
        assert written.unwritten(two, 128) is None
    finally:
        for address in (one, two):
            initialised.forget(address)
