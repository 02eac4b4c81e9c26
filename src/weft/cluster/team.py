"""Hire one worker for each GPU, or each CPU, of a Ray cluster; refuse other versions of weft."""

from __future__ import annotations

import itertools
import math
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from weft.cluster import worker as remote
from weft.errors import ArgumentError, Error, MissingDependency

START = 600.0
"""Seconds in which workers must have started; a cold or busy node imports PyTorch in minutes."""
GPU, CPU = "GPU", "CPU"
About = Callable[[], dict[str, str]]
"""Describes the device of a worker there; "gpu" is its name."""


@dataclass(eq=False)
class Hired:
    """A worker: its actor, the call that it is at, and what it has said about itself."""

    actor: Any
    key: str
    call: Any = None
    facts: dict[str, str] = field(default_factory=dict)
    number: int = -1
    until: float = math.inf

    @property
    def kind(self) -> str:
        """The name of its GPU; "" for a CPU."""
        return self.facts.get("gpu", "")


class Team:
    """The workers of one command.

    size   of the complete team
    about  describes the GPU of a worker; None for workers that use a CPU each
    """

    def __init__(self, ray: Any, size: int, about: About | None) -> None:
        self.ray, self.size, self.about = ray, size, about
        self.own = remote.facts()
        ray.cloudpickle.register_pickle_by_value(remote)
        self._worker = ray.remote(remote.Worker)
        here = ray.util.scheduling_strategies.NodeAffinitySchedulingStrategy(
            ray.get_runtime_context().get_node_id(), soft=False
        )
        notes = ray.remote(remote.Notes)
        self.notes = notes.options(num_cpus=0, scheduling_strategy=here).remote()
        self.hired: list[Hired] = []
        self._keys = map(str, itertools.count(1))

    @property
    def kinds(self) -> list[str]:
        """The names of the GPUs, most frequent first; [""] for CPUs."""
        return [kind for kind, _ in Counter(one.kind for one in self.hired).most_common()]

    def machine(self, kind: str) -> dict[str, str]:
        """The description of a GPU of this kind, for records."""
        facts = next(one.facts for one in self.hired if one.kind == kind)
        return {name: text for name, text in facts.items() if name not in ("host", "weft")}

    def hire(self) -> Hired:
        """Ask for another worker; its call is the one that has it describe itself."""
        resources = dict(num_gpus=1, num_cpus=0) if self.about is not None else dict(num_cpus=1)
        actor = self._worker.options(max_restarts=0, **resources).remote()
        one = Hired(actor, next(self._keys))
        one.call = actor.hello.remote()
        self.hired.append(one)
        return one

    def complete(self) -> None:
        """Ask for workers in the place of those that have been dismissed."""
        for _ in range(len(self.hired), self.size):
            self.hire()

    def dismiss(self, one: Hired) -> None:
        """End a worker, also one that hangs."""
        self.hired.remove(one)
        self.ray.kill(one.actor)

    def verify(self, facts: dict[str, str]) -> None:
        """Raise for a worker with another weft or another Python."""
        for name in ("weft", "python"):
            if facts[name] != self.own[name]:
                raise Error(
                    f"a worker of the cluster has another version of {name}",
                    where=f"node {facts['host']}",
                    got=f"{name} {facts[name]}",
                    allowed=f"{name} {self.own[name]}, as on this machine",
                    next="install the same versions on all nodes",
                )

    def broken(self, host: str, error: Exception) -> Error:
        """The error for a worker that could not start."""
        cause = str(error).strip().splitlines() or [type(error).__name__]
        return Error(
            "a worker of the cluster cannot start", where=f"node {host or '?'}", got=cause[-1]
        )


@contextmanager
def team(ray: Any, workers: int | None, about: About | None = None) -> Iterator[Team]:
    """Hire workers inside: `workers` of them, by default one for each GPU or CPU."""
    most = _available(ray, GPU if about is not None else CPU)
    if workers is not None and workers > most and about is not None:
        raise ArgumentError(
            "the cluster has fewer GPUs than workers", got=f"--workers {workers}", allowed=str(most)
        )
    staff = Team(ray, workers or most, about)
    try:
        staff.complete()
        _introduce(staff)
        yield staff
    finally:
        for one in [*staff.hired]:
            staff.dismiss(one)
        ray.kill(staff.notes)


def _available(ray: Any, resource: str) -> int:
    """The GPUs or CPUs of all nodes that are alive."""
    alive = [node for node in ray.nodes() if node["Alive"]]
    count = int(sum(node["Resources"].get(resource, 0) for node in alive))
    if count:
        return count
    hosts = ", ".join(sorted(node["NodeManagerHostname"] for node in alive))
    raise MissingDependency(
        f"no node of the cluster has a {resource}",
        got=f"{len(alive)} nodes: {hosts}",
        allowed=f"a node that offers one: ray start --num-{resource.lower()}s=1",
    )


def _introduce(staff: Team) -> None:
    """Wait until the workers have described themselves; those that others delay are let go."""
    end = time.monotonic() + START
    waiting = {one.call: one for one in staff.hired}
    while waiting and (left := end - time.monotonic()) > 0:
        ready, _ = staff.ray.wait([*waiting], timeout=left)
        for call in ready:
            one = waiting.pop(call)
            if introduced(staff, one):
                one.call = None
            else:
                waiting[one.call] = one
    for one in waiting.values():
        staff.dismiss(one)
    staff.size = len(staff.hired)
    if not staff.hired:
        raise Error(
            f"no worker of the cluster has started in {START:.0f} s",
            next="`ray status` shows what uses its CPUs and GPUs",
        )


def introduced(staff: Team, one: Hired) -> bool:
    """Take what a starting worker has said; False if it has been asked for more."""
    try:
        said: dict[str, str] = staff.ray.get(one.call)
    except staff.ray.exceptions.RayError as error:
        raise staff.broken(one.facts.get("host", ""), error) from None
    if not one.facts:
        staff.verify(said)
        one.facts = said
        one.call = one.actor.describe.remote(staff.about)
        return False
    one.facts = {**one.facts, **said}
    return True
