"""Limits of a launch: it is checked against those of its device before it runs."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING

from weft.device.base import LaunchConfig, Limits
from weft.device.summary import KernelSummary
from weft.errors import LaunchError

if TYPE_CHECKING:
    from weft.source.resources import Resources


def check(
    name: str, entry: KernelSummary, config: LaunchConfig, m: Limits, resources: Resources | None
) -> None:
    """Raise LaunchError where the device would refuse; registers count where they are known."""
    for what, sizes, most in (
        ("grid", config.grid, m.max_grid),
        ("block", config.block, m.max_block),
    ):
        for axis, n, limit in zip("xyz", sizes, most, strict=True):
            if n > limit:
                raise LaunchError(
                    f"{name}: {what}.{axis} is too large for {m.name}",
                    got=str(n),
                    allowed=f"up to {limit}",
                )
    for what, sizes, parts in (("grid", config.grid, "blocks"), ("block", config.block, "threads")):
        if 0 in sizes:
            raise LaunchError(
                f"{name}: a {what} needs {parts}",
                got=f"{what} {sizes}",
                allowed="1 and above in x, y and z",
                next="leave out the launch where there is nothing to do"
                if what == "grid"
                else "k[grid, 256] has 256 threads a block",
            )
    _check_threads(name, entry, config.block, m)
    _check_shared(name, entry, config, m)
    if config.cluster is not None or any("cluster" in name for name in entry.directives):
        from weft.device.clusters import check_cluster

        check_cluster(name, entry.directives, config, m.name, m.max_cluster)
    if resources is not None:
        _check_registers(name, prod(config.block), m, resources)


def _check_threads(name: str, entry: KernelSummary, block: tuple[int, int, int], m: Limits) -> None:
    threads = prod(block)
    if threads > m.max_threads_per_block:
        raise LaunchError(
            f"{name}: too many threads in a block for {m.name}",
            got=f"{block} = {threads}",
            allowed=f"up to {m.max_threads_per_block}",
        )
    # `.maxntid` limits the product of its numbers, `.reqntid` each of them.
    most = entry.directives.get("maxntid")
    if most is not None and threads > prod(most):
        raise LaunchError(
            f"{name} was compiled for fewer threads a block",
            got=f"{block} = {threads}",
            allowed=f"up to {prod(most)} (__launch_bounds__)",
        )
    exact = entry.directives.get("reqntid")
    # It may leave out y and z, which are then 1.
    if exact is not None and (*exact, 1, 1)[:3] != block:
        raise LaunchError(
            f"{name} was compiled for one block shape", got=str(block), allowed=str(exact)
        )


def _check_shared(name: str, entry: KernelSummary, config: LaunchConfig, m: Limits) -> None:
    static = entry.static_shared
    if static > m.static_shared_per_block or static + config.shared_bytes > m.shared_per_block:
        raise LaunchError(
            f"{name} needs more shared memory than a block may have on {m.name}",
            got=f"{static} bytes static + {config.shared_bytes} dynamic",
            allowed=f"{m.static_shared_per_block} static, {m.shared_per_block} in all",
            next="use smaller tiles, or move the array to dynamic shared memory",
        )


def _check_registers(name: str, threads: int, m: Limits, resources: Resources) -> None:
    if resources.registers_for(threads) > m.registers_per_block:
        raise LaunchError(
            f"{name} needs more registers than a block may have on {m.name}",
            got=f"{resources.registers} a thread, {resources.registers_for(threads)} for {threads}",
            allowed=f"up to {m.registers_per_block}",
            next="launch fewer threads a block, or compile with __launch_bounds__(threads)",
        )
