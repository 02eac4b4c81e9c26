"""Clusters of a launch: the shape that it asks for or was compiled for, and what a GPU allows."""

from __future__ import annotations

from collections.abc import Mapping
from math import prod

from weft.device.base import Dim3, LaunchConfig
from weft.errors import LaunchError

PORTABLE = 8
"""Blocks of a cluster that every GPU with clusters can run."""
Directives = Mapping[str, tuple[int, ...]]
"""The performance directives of a kernel, by name."""


def cluster_of(config: LaunchConfig, directives: Directives) -> Dim3 | None:
    """The cluster that a launch has: its own, or the kernel's `__cluster_dims__`; None: neither."""
    return config.cluster or _compiled(directives)


def _compiled(directives: Directives) -> Dim3 | None:
    sizes = directives.get("reqnctapercluster")
    if not sizes:
        return None
    x, y, z = (*sizes, 1, 1)[:3]  # y and z may be left out
    return x, y, z


def check_cluster(
    name: str, directives: Directives, config: LaunchConfig, gpu: str, most: int
) -> None:
    """Raise LaunchError for a cluster that does not fit its kernel, its grid or its GPU.

    most  blocks of the largest cluster of the GPU; 0 where it has none
    """
    compiled = _compiled(directives)
    if "blocksareclusters" in directives:
        raise LaunchError(
            f"{name} counts its grid in clusters, which weft does not support",
            got=".blocksareclusters",
            next="declare the kernel with __cluster_dims__ instead of __block_size__",
        )
    if compiled is not None and config.cluster not in (None, compiled):
        raise LaunchError(
            f"{name} was compiled for another cluster",
            got=f"cluster {config.cluster}",
            allowed=f"{compiled} (__cluster_dims__)",
            next="leave the cluster out of the launch",
        )
    cluster = cluster_of(config, directives)
    if cluster is None:
        if "explicitcluster" in directives:
            raise LaunchError(
                f"{name} must be launched with a cluster",
                got="none",
                allowed="the sizes that __cluster_dims__ leaves open",
                next=f"{name}[grid, block, shared_mem, stream, cluster]",
            )
        return
    _check_size(name, directives, cluster, gpu, most)
    for axis, blocks, size in zip("xyz", config.grid, cluster, strict=True):
        if blocks % size:
            raise LaunchError(
                f"{name}: the cluster does not divide the grid",
                got=f"grid {config.grid}, cluster {cluster}",
                allowed=f"grid.{axis} a multiple of {size}",
                next="round the grid up, and let the blocks beyond the end do nothing",
            )


def _check_size(name: str, directives: Directives, cluster: Dim3, gpu: str, most: int) -> None:
    if not most:
        raise LaunchError(
            f"{name}: {gpu} has no clusters",
            got=f"cluster {cluster}",
            allowed="GPUs of compute capability 9.0 and above",
            next='simulate one that has them: device="sim:h200"',
        )
    blocks = prod(cluster)
    if not 1 <= blocks <= most:
        raise LaunchError(
            f"{name}: too many blocks in a cluster for {gpu}"
            if blocks
            else f"{name}: a cluster needs blocks",
            got=f"cluster {cluster} = {blocks}",
            allowed=f"1 to {PORTABLE}" + (f", and {most} on this GPU" if most > PORTABLE else ""),
        )
    limit = directives.get("maxclusterrank", ())
    if limit and blocks > limit[0]:
        raise LaunchError(
            f"{name} was compiled for smaller clusters",
            got=f"cluster {cluster} = {blocks}",
            allowed=f"up to {limit[0]} blocks (.maxclusterrank)",
        )
