"""Process groups of scripts whose GPUs are simulated: Gloo serves NCCL's groups.

A group keeps the name of the backend that the script asks for. Its collectives are those of
`collectives.py`.
"""

from __future__ import annotations

import functools
import inspect
from datetime import timedelta
from typing import Any

import torch
import torch.cuda.nccl
import torch.distributed as dist

from weft.frontends.pytorch import cuda

NCCL_VERSION = (2, 28, 9)
"""The version of NCCL that scripts see."""

NCCL_TIMEOUT = timedelta(minutes=10)
"""NCCL's default limit, which torch has in builds for CUDA only."""


def replacements() -> dict[Any, dict[str, Any]]:
    """Owner -> name -> replacement; nothing where torch has no distributed part."""
    if not (dist.is_available() and dist.is_gloo_available()):
        return {}
    from torch.distributed import constants, distributed_c10d

    from weft.frontends.pytorch.distributed import communicator, operators, reductions

    operators.install()
    helper, own = distributed_c10d._new_process_group_helper, distributed_c10d.destroy_process_group
    wait = distributed_c10d.Work.wait

    @functools.wraps(own)
    def destroy_process_group(group: Any = None) -> None:
        operators.close(None if group is None or group is dist.group.WORLD else group)
        own(group)

    @functools.wraps(wait)
    def wait_for_work(work: Any, *args: Any, **options: Any) -> Any:
        done = wait(work, *args, **options)
        communicator.raise_failure()
        return done

    shared = {"destroy_process_group": destroy_process_group, "ProcessGroupNCCL": ProcessGroupNCCL}
    return {
        dist: {**shared, "is_nccl_available": cuda.always(True)},
        distributed_c10d: {
            **shared,
            **reductions.options(),
            "_new_process_group_helper": _new_group(helper),
            "default_pg_nccl_timeout": NCCL_TIMEOUT,
        },
        distributed_c10d.Work: {"wait": wait_for_work},
        torch.cuda.nccl: {"version": cuda.always(NCCL_VERSION)},
        constants: {"default_pg_nccl_timeout": NCCL_TIMEOUT},
    }


class ProcessGroupNCCL:
    """NCCL's backend by name: scripts make its options, which Gloo has no use for."""

    class Options:
        """Options of a group of NCCL."""

        def __init__(self, is_high_priority_stream: bool = False) -> None:
            self.is_high_priority_stream = is_high_priority_stream
            self.config = _Config()


class _Config:
    """`ncclConfig_t`: it takes any field."""


def _new_group(helper: Any) -> Any:
    """torch's constructor of groups, which makes one of Gloo for every backend."""
    signature = inspect.signature(helper)

    @functools.wraps(helper)
    def new_group(*args: Any, **options: Any) -> Any:
        from torch.distributed.distributed_c10d import _world

        call = signature.bind(*args, **options)
        asked = str(call.arguments["backend"])
        if not _is_served(asked):
            return helper(*args, **options)
        call.arguments["backend"] = dist.Backend("gloo")
        for name in ("backend_options", "pg_options", "device_id"):
            call.arguments.pop(name, None)
        with _Joining(call.arguments):
            made = helper(*call.args, **call.kwargs)
        group = made[0] if isinstance(made, tuple) else made
        if isinstance(group, dist.ProcessGroup):
            _world.pg_map[group] = (asked, _world.pg_map[group][1])
        return made

    return new_group


def _is_served(backend: str) -> bool:
    return bool({"nccl", "gloo", "undefined"} & set(backend.replace(",", ":").split(":")))


class _Joining:
    """A context in which the ranks of a group meet; its errors name those that did not come."""

    def __init__(self, arguments: dict[str, Any]) -> None:
        self._store, self._rank = arguments["store"], arguments["group_rank"]
        self._ranks = arguments["global_ranks_in_group"] or range(arguments["group_size"])
        self._prefix = f"weft/joined/{arguments['group_name']}"
        self._limit = arguments.get("timeout")

    def __enter__(self) -> None:
        # Processes that are not in a subgroup have no rank there.
        if self._rank is not None and self._rank >= 0:
            self._store.set(f"{self._prefix}/{self._rank}", "")

    def __exit__(self, kind: Any, error: Any, _: Any) -> None:
        if not isinstance(error, RuntimeError):
            return
        absent = [
            str(rank)
            for index, rank in enumerate(self._ranks)
            if not self._store.check([f"{self._prefix}/{index}"])
        ]
        if absent:
            # Here: a build of torch without its distributed part has no base of this class.
            from weft.frontends.pytorch.distributed.communicator import JoinError

            raise JoinError(
                "not all ranks of a process group came in time",
                got=f"rank {', '.join(absent)} of {len(self._ranks)} missing after {self._limit}",
                next="look for a rank that ended or waits elsewhere; `timeout=` of "
                "init_process_group is the limit",
            ) from error
