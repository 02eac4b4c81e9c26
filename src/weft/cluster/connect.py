"""Join a Ray cluster by its address, or start Ray on this machine.

Ray retries for a minute or longer where nothing answers. So the address is tried first: the head of
a cluster is a gRPC server, which greets a client by a frame of settings (HTTP/2, RFC 9113).
"""

from __future__ import annotations

import importlib
import os
import shutil
import socket
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from typing import Any

from weft.errors import ArgumentError, Error, MissingDependency
from weft.installation import pip_install

LOCAL = "local"
LIMIT = 20.0
"""Seconds in which the head of a cluster must answer."""
ADDRESSES = "HOST:PORT of the head node, auto for the cluster of this machine, or local"
_STORE = 80 * 2**20
"""Bytes of Ray's object store: tasks and results are small."""
PATIENT = {
    "worker_register_timeout_seconds": 600,
    "health_check_initial_delay_ms": 60_000,
    "health_check_period_ms": 10_000,
    "health_check_timeout_ms": 60_000,
    "worker_niceness": 0,
}
"""Settings of a Ray on this machine, whose cores may be busy: slow is not dead, and workers have
the priority of the command that starts them."""
_GREETING = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes([0, 0, 0, 4, 0, 0, 0, 0, 0])
"""The first bytes of an HTTP/2 client: the preface and an empty frame of settings."""
_SETTINGS = 4
"""The type of a frame of settings: its fourth byte."""


@contextmanager
def connect(address: str, workers: int | None = None, limit: float = LIMIT) -> Iterator[Any]:
    """Give the module `ray`, connected to a cluster inside.

    address  "local" starts Ray on this machine, with `workers` CPUs; "auto" or "HOST:PORT" joins
    limit    seconds in which the cluster must answer
    """
    ray = _ray()
    if ray.is_initialized():
        raise Error("this process is connected to a Ray cluster already", next="ray.shutdown()")
    # Ray prints about workers that end to standard output, which belongs to the command's result.
    local = address == LOCAL
    joined = _started(ray, workers) if local else _joined(ray, address, limit)
    with redirect_stdout(sys.stderr), joined:
        yield ray


def cores() -> int:
    """The CPUs that this process may use."""
    return len(os.sched_getaffinity(0))


def _ray() -> Any:
    try:
        return importlib.import_module("ray")
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != "ray":
            raise
        raise MissingDependency(
            "work on a cluster needs Ray", got=str(error), next=pip_install("ray")
        ) from None


@contextmanager
def _joined(ray: Any, address: str, limit: float) -> Iterator[None]:
    """Be a driver of a cluster inside."""
    _require_answer(address, limit)
    _init(ray, address, dict(address=address))
    try:
        yield
    finally:
        ray.shutdown()


@contextmanager
def _started(ray: Any, workers: int | None) -> Iterator[None]:
    """Run Ray on this machine inside; its processes and files are gone afterwards."""
    folder = tempfile.mkdtemp(prefix="weft-ray-")
    try:
        settings = dict(
            address=LOCAL,
            num_cpus=workers or cores(),
            include_dashboard=False,
            object_store_memory=_STORE,
            _system_config=PATIENT,
            _temp_dir=folder,
        )
        _init(ray, LOCAL, settings)
        yield
    finally:
        ray.shutdown()
        shutil.rmtree(folder, ignore_errors=True)


def _init(ray: Any, address: str, settings: dict[str, Any]) -> None:
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # no reports to Ray's authors
    try:
        ray.init(log_to_driver=False, logging_level="ERROR", **settings)
    except (
        Exception
    ) as error:  # Ray raises Exception itself, e.g. for a node that starts too slowly
        ray.shutdown()
        raise _refused(address, error) from None


def _refused(address: str, error: Exception) -> Error:
    """The error for a cluster that does not take this process."""
    said = " ".join(str(error).split())[:600] or type(error).__name__
    if "ersion mismatch" in said:
        return Error(
            "the cluster runs another version of Python or Ray",
            where=f"--ray {address}",
            got=said,
            next="install the same versions on all nodes and on this machine",
        )
    return Error(
        "the Ray cluster cannot be used from here",
        where=f"--ray {address}",
        got=said,
        next="run the command on a node of the cluster: ray start --address=HOST:PORT",
    )


# ---- addresses ---------------------------------------------------------------------------------
def _require_answer(address: str, limit: float) -> None:
    """Raise unless the head of a cluster answers at an address."""
    if address == "auto":
        return  # Ray reads the address of this machine's cluster from a file, or refuses at once
    host, _, port = address.rpartition(":")
    if not host or not port.isdecimal() or "/" in host:
        raise ArgumentError("--ray cannot be read", got=address, allowed=ADDRESSES)
    if os.environ.get("RAY_USE_TLS", "0") == "1":
        return  # the greeting would have to be encrypted; Ray has limits of its own
    try:
        with socket.create_connection((host, int(port)), timeout=limit) as connection:
            connection.sendall(_GREETING)
            frame = connection.recv(9)
    except TimeoutError:
        raise _silent(address, f"no answer in {limit:.0f} s") from None
    except (OSError, OverflowError) as error:
        raise _silent(address, str(error)) from None
    if frame[3:4] != bytes([_SETTINGS]):
        raise _silent(address, "an answer that is not Ray's")


def _silent(address: str, reason: str) -> Error:
    return Error(
        "no Ray cluster answers at this address",
        where=f"--ray {address}",
        got=reason,
        allowed=ADDRESSES,
        next="`ray status` on the head node prints its address",
    )
