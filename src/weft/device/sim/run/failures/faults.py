"""Turns the error fields that compiled code has written into an exception with advice."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from weft.device.sim import warpgroup_faults
from weft.device.sim.emit.row_operations import BARRIER_LIMITS, COUNT
from weft.device.sim.layout import Fault, Run, WorkerFields
from weft.device.sim.run import clusters
from weft.device.sim.run.arena import Arena
from weft.device.sim.run.failures import addresses, deadlocks, mbarriers, tensors
from weft.device.sim.run.failures.failed_launch import FailedLaunch, Site
from weft.errors import DeviceError, Error, IllegalAddress, MisalignedAddress, TimeLimit, Trapped

if TYPE_CHECKING:
    from weft.device.base import Allocation, LaunchConfig
    from weft.device.sim.run.module import SimModule


def explain(
    module: SimModule,
    entry: str,
    config: LaunchConfig,
    arena: Arena,
    results: Sequence[int],
    memory: Sequence[Allocation],
    time_limit: float | None,
) -> Error | BaseException:
    """The exception for a launch that did not finish."""
    launch = FailedLaunch(module, entry, config, arena, memory)
    failed = module.services.failed
    # A fault stops the other workers, so it is looked for before the stops.
    for i, result in enumerate(results):
        if result == Run.FAULT:
            return _fault(launch, i, failed)
        if result == Run.DEADLOCK:
            why = "" if launch.in_cluster else "barrier"
            return deadlocks.explain(launch, launch.stuck_slots(i), why)
    if failed is not None:
        return failed
    if arena.verdict == "deadlock":
        return deadlocks.explain(launch, launch.busy_slots(), "")
    return TimeLimit(
        f"{launch.name} ran past its time limit",
        got=f"still running after {time_limit} s",
        next="raise time_limit=, use a smaller input, or look for a loop that does not end",
    )


def _fault(
    launch: FailedLaunch, worker: int, failed: BaseException | None
) -> Error | BaseException:
    code, site = launch.arena.workers[worker][WorkerFields.ERROR], launch.site(worker)
    # A service has kept its own exception; the code in the worker only ended the warp.
    if failed is not None:
        error: Error | BaseException = failed
    elif code in (Fault.ILLEGAL, Fault.READ_ONLY, Fault.MISALIGNED):
        error = addresses.explain(launch, code, site)
    elif code in clusters.FAULTS:
        error = clusters.explain(launch, code, site.line, worker)
    elif code in _FAULTS:
        error = _FAULTS[code](launch, site)
    else:
        error = DeviceError(f"{launch.name} failed (code {code})", where=site.line)
    if isinstance(error, DeviceError):
        error.kernel, error.line = launch.name, site.line
        error.block, error.thread = site.block, site.thread
    return error


def _trap(launch: FailedLaunch, site: Site) -> DeviceError:
    return Trapped(
        f"{launch.name} executed a trap",
        where=site.line,
        got=str(site),
        next="look for __trap(), a library's failed check, or code that cannot be reached",
    )


def _barrier(launch: FailedLaunch, site: Site) -> DeviceError:
    value = launch.arena.workers[site.worker][WorkerFields.ERROR_ADDRESS]
    counts = value & COUNT
    number = value & 0xFFFFFFFF
    return DeviceError(
        f"{launch.name} uses a barrier wrongly: "
        + (f"{number} threads cannot meet" if counts else f"there is no barrier {number}"),
        where=site.line,
        got=str(site),
        allowed=BARRIER_LIMITS[counts],
        next="check what the kernel computes for the barrier's number and its count",
    )


def _mbarrier(launch: FailedLaunch, site: Site) -> DeviceError:
    w = launch.arena.workers[site.worker]
    at = w[WorkerFields.ERROR_ADDRESS] - launch.shared_memory(site.worker)[0]
    place = f"byte {at} of shared memory, {site}"
    kind, got = w[WorkerFields.ERROR_BYTES], w[WorkerFields.ERROR_WRITES]
    return mbarriers.misuse(launch.name, site.line, kind, got, place)


def _tensor(launch: FailedLaunch, site: Site) -> DeviceError:
    w = launch.arena.workers[site.worker]
    number, got = w[WorkerFields.ERROR_BYTES], w[WorkerFields.ERROR_WRITES]
    place = f"tensor map at {w[WorkerFields.ERROR_ADDRESS] & 2**64 - 1:#x}, {site}"
    return tensors.explain(launch.name, site.line, site.ins, number, got, place)


def _warpgroup(launch: FailedLaunch, site: Site) -> DeviceError:
    value = launch.arena.workers[site.worker][WorkerFields.ERROR_ADDRESS]
    _, size = launch.shared_memory(site.worker)
    wrong = warpgroup_faults.explain(value, launch.arena.info.warps, size)
    return DeviceError(
        f"wgmma in {launch.name} {wrong.what}",
        where=site.line,
        got=f"{wrong.got}, {site}",
        allowed=wrong.allowed,
        next=wrong.next,
    )


def _texture(launch: FailedLaunch, site: Site) -> DeviceError:
    unit = launch.module.root.textures
    if unit is None:
        return DeviceError(
            f"{launch.name} uses a texture or surface object",
            where=site.line,
            got=str(site),
            allowed="objects of weft.texture and weft.surface, or of a whole program",
            next="pass weft.texture(array), or run the program: weft run prog.cu",
        )
    what, _, allowed = unit.error().partition("; ")
    kind = MisalignedAddress if "misaligned" in what else IllegalAddress
    return kind(
        f"{launch.name} {what}",
        where=site.line,
        got=str(site),
        allowed=allowed,
        next="compare the coordinates with the sizes, and look at where the handle comes from",
    )


_FAULTS: dict[int, Callable[[FailedLaunch, Site], DeviceError]] = {
    Fault.TRAP: _trap,
    Fault.BARRIER: _barrier,
    Fault.MBARRIER: _mbarrier,
    Fault.TENSOR: _tensor,
    Fault.WARPGROUP: _warpgroup,
    Fault.TEXTURE: _texture,
}
