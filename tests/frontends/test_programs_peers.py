"""The sanitizer on programs with several GPUs: NCCL, peer copies and peer memory."""

from __future__ import annotations

import pytest

import nvcc
from folders import TESTS
from weft import sanitize
from weft.frontends import program
from weft.frontends.program.sanitizer.order import DEVICE_SHIFT, PER_THREAD, Order

PROGRAM = TESTS / "programs" / "peers.cu"
STREAMS = "work of two streams touches the same memory"
HOST = "the host touches memory that work under way uses"
FREED = "memory is freed that other work may still use"
FILL, TWICE = "x[threadIdx.x] = value;", "y[threadIdx.x] = 2 * x[threadIdx.x];"
SEND, RECEIVE = "ncclSend in stream 1 of device 0", "ncclRecv in stream 3 of device 1"
MISTAKES: dict[str, tuple[str, str, tuple[str, ...]]] = {
    "sent_and_written": ("data race", STREAMS, (SEND, FILL)),
    "read_before_received": ("data race", STREAMS, (RECEIVE, TWICE)),
    "read_after_the_send": ("data race", STREAMS, (RECEIVE, TWICE)),
    "summed_and_filled": (
        "data race",
        STREAMS,
        ("ncclAllReduce in stream 1 of device 0", "cudaMemsetAsync in stream 2 of device 0"),
    ),
    "peer_copy_and_kernel": (
        "data race",
        STREAMS,
        ("cudaMemcpyPeerAsync in stream 1 of device 0", FILL),
    ),
    "two_devices_write": ("data race", STREAMS, (FILL, FILL)),
    "waits_for_the_other_device": ("data race", STREAMS, (FILL, TWICE)),
    "host_reads_received": ("data race", HOST, (RECEIVE, "the host")),
    "without_peer_access": (
        "peer access",
        "a kernel of device 0 touches memory of device 1, to which it has no access",
        (TWICE,),
    ),
    "freed_while_sent": ("free in flight", FREED, (RECEIVE, "cudaFree")),
}


@nvcc.needed
@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_between_devices_is_found(name: str) -> None:
    kind, what, lines = MISTAKES[name]
    with sanitize(raises=False) as report:
        program.run(str(PROGRAM), [name], gpus=2)
    told = [f for f in report.findings if f.kind == kind and what in f.what]
    assert len(told) == 1, str(report)
    assert len(told[0].accesses) == len(lines), str(told[0])
    for access, line in zip(told[0].accesses, lines, strict=True):
        assert line in access.line, str(told[0])
        assert "peers.cu" in access.file, str(told[0])


@nvcc.needed
def test_programs_with_peers_that_are_right_have_no_findings() -> None:
    with sanitize() as report:
        assert program.run(str(PROGRAM), [], gpus=2) == 0
    assert report.launches >= len(MISTAKES)


# ---- order --------------------------------------------------------------------------------------
ONE, TWO = 1 << 20, 2 << 20
"""Handles of streams of the devices 0 and 1."""
OTHER = 1 << DEVICE_SHIFT
"""The default stream of device 1."""


def two_devices() -> Order:
    order = Order(2)
    order.created(ONE, 0)
    order.created(TWO, 1 << DEVICE_SHIFT)
    return order


def test_each_device_has_a_default_stream() -> None:
    order = two_devices()
    a, b = order.submitted(0), order.submitted(OTHER)
    assert a.concurrent_with(b)
    assert order.submitted(ONE).after(a) and order.submitted(TWO).after(b)
    assert order.submitted(TWO).concurrent_with(a)
    own = order.submitted(OTHER | PER_THREAD)
    assert own.after(b) and own.concurrent_with(a)
    order.destroyed(TWO)
    assert order.submitted(OTHER).after(own) and order.several
    assert [order.name_of(w.stream) for w in (a, b, own)] == [
        "the default stream of device 0",
        "the default stream of device 1",
        "stream 3 of device 1",
    ]


def test_the_host_waits_for_one_device() -> None:
    order = two_devices()
    a, b = order.submitted(ONE), order.submitted(TWO)
    order.host_waits_for_device(0)
    assert order.ended(a) and not order.ended(b)
    order.destroyed(TWO)
    order.host_waits_for_device(0)
    assert not order.ended(b)
    order.host_waits_for_all()
    assert order.ended(b)


def test_joined_streams_wait_for_both() -> None:
    order = two_devices()
    a, b = order.submitted(0), order.submitted(OTHER)
    order.joined(0, OTHER)
    for stream in (0, OTHER):
        later = order.submitted(stream)
        assert later.after(a) and later.after(b)


def test_work_that_receives_ends_after_its_sender_began() -> None:
    order = two_devices()
    before = order.submitted(ONE)
    order.recorded(7, ONE)
    sends, receives = order.submitted(ONE), order.submitted(TWO)
    assert receives.concurrent_with(before)
    order.work_waits(receives, 7)
    assert receives.after(before) and receives.concurrent_with(sends)
    assert order.submitted(TWO).after(before)
