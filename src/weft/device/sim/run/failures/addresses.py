"""Explains an access to an address that a kernel may not use so."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from weft.device.sim.layout import Fault, Space, WorkerFields
from weft.device.sim.run import clusters, elements
from weft.device.sim.run.failures.failed_launch import FailedLaunch, Site
from weft.errors import IllegalAddress, MisalignedAddress
from weft.ptx.model import Label

if TYPE_CHECKING:
    from weft.device.base import Allocation

_SPACES = {
    Space.GLOBAL: "global", Space.SHARED: "shared", Space.LOCAL: "local",
    Space.PARAM: "parameter", Space.GENERIC: "generic", Space.CONST: "constant",
    Space.CLUSTER: "shared::cluster",
}  # fmt: skip
_OF_A_BLOCK = (Space.SHARED, Space.LOCAL, Space.PARAM, Space.CLUSTER)
"""Spaces whose addresses are in no array."""
_NULL = 4096
"""No array begins below: an address there is an index from a null pointer."""


def explain(launch: FailedLaunch, code: int, site: Site) -> IllegalAddress:
    """The error of an access out of bounds, of a misaligned one, or of a write to constants."""
    w = launch.arena.workers[site.worker]
    address = w[WorkerFields.ERROR_ADDRESS] & 2**64 - 1  # the fields of a worker are signed
    writes, nbytes = bool(w[WorkerFields.ERROR_WRITES]), w[WorkerFields.ERROR_BYTES]
    space = w[WorkerFields.ERROR_SPACE]
    verb = "write" if writes else "read"
    kind = MisalignedAddress if code == Fault.MISALIGNED else IllegalAddress
    near = _nearest(launch, address, nbytes, writes) if space not in _OF_A_BLOCK else None
    place = _place(launch, space, address, nbytes, site.worker, writes, near)
    which = ""
    if near is not None and elements.is_near(near, address):
        which = f"{elements.element(near, address, nbytes)}, "
    what = "misaligned" if code == Fault.MISALIGNED else "out-of-bounds"
    error = kind(
        f"{what} {verb} of {nbytes} bytes in {launch.name}, {_SPACES[space]} memory",
        where=site.line,
        got=f"{which}address {address:#x}, {site}",
        allowed=f"a multiple of {nbytes}" if code == Fault.MISALIGNED else place,
        next=(
            "vector types need their base aligned: check the offset of the array or view"
            if code == Fault.MISALIGNED
            else _advice(launch, space, address)
        ),
    )
    error.address, error.space, error.access = address, _SPACES[space], verb
    return error


def _advice(launch: FailedLaunch, space: int, address: int) -> str:
    if space == Space.SHARED and _uses_dynamic(launch):
        return (
            f"the kernel's `extern __shared__` memory has {launch.config.shared_bytes} bytes: "
            f"give it as many as it uses, {launch.name}[grid, block, shared_mem]"
        )
    if space not in _OF_A_BLOCK and address < _NULL:
        return "pass an array where None was given, or set the pointer before it is used"
    return "compare the index with the array's length before the access"


def _uses_dynamic(launch: FailedLaunch) -> bool:
    """Return whether the kernel's code names an `extern __shared__` array."""
    function = launch.program.function
    variables = (*launch.module.module.variables.values(), *function.variables.values())
    unsized = [v.name for v in variables if v.space == "shared" and v.unsized]
    texts = [ins.text for ins in function.body if not isinstance(ins, Label)]
    words = {word for text in texts for word in re.findall(r"[\w$]+", text)}
    return any(name in words for name in unsized)


def _nearest(launch: FailedLaunch, address: int, nbytes: int, writes: bool) -> Allocation | None:
    """The array or variable that an access hits or misses by the smallest distance."""
    # A write has missed the view itself: the memory around a view is there for reads.
    given = [a for a in launch.memory if not (writes and a.around)]
    memory = [*given, *launch.module.owned()]
    return min(memory, key=lambda a: _distance(a, address, nbytes), default=None)


def _place(
    launch: FailedLaunch,
    space: int,
    address: int,
    nbytes: int,
    worker: int,
    writes: bool,
    near: Allocation | None,
) -> str:
    """The nearest allocation, and by how much it was missed."""
    if space == Space.SHARED:
        start, size = launch.shared_memory(worker)
        off = address - start
        return (
            f"{size} bytes of shared memory; the access is at byte {off}, element "
            f"{off // nbytes} of {nbytes} bytes"
        )
    if space == Space.CLUSTER:
        return clusters.place(launch, worker, address)
    if space == Space.LOCAL:
        return f"{launch.arena.info.local_bytes} bytes of local memory a thread"
    if space == Space.PARAM:
        return "the kernel's own parameters"
    if address < _NULL:
        return "an address in an array: this one comes from a null pointer"
    if near is None:
        return "no array was given to this launch"
    miss = _distance(near, address, nbytes)
    if miss == 0:
        why = "is read-only" if writes and not near.writable else "may not be used so"
        return f"'{near.name}' holds this address but {why}"
    side = "before its start" if address < near.address else "past its end"
    return f"nearest is '{near.name}' ({near.nbytes} bytes): {miss} bytes {side}"


def _distance(a: Allocation, address: int, nbytes: int) -> int:
    """Bytes by which an access misses an allocation; 0 where it is inside."""
    if address < a.address:
        return a.address - address
    return max(0, address + nbytes - (a.address + a.nbytes))
