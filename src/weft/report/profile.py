"""Defines `weft.profile` and the `Profile` that it returns, with its views."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from weft.device.selection import select, selected
from weft.errors import Error, LaunchError
from weft.kernels import Configured
from weft.measure.profile import values
from weft.measure.profile.profile import profile as measured
from weft.report.analysis import AnalysedProfile

if TYPE_CHECKING:  # a process that profiles one launch does not import it
    from weft.measure.profile.session import Recording


class Profile(AnalysedProfile):
    """The result of `weft.profile`. `print` shows it; `save` writes a page or a record.

    launch         kernel, grid, block, shared memory and registers
    gpu            the model whose caches, limits and rates apply
    instructions   each PTX instruction and how often it ran
    lines          the same by source line
    arrays         the bytes of each array that were read and written
    totals         counters of the whole launch, with ncu's names after "sim:"
    modelled       the names in `totals` that are estimates; all others are exact
    samples        the addresses that some warps accessed
    measured       seconds on a real GPU, where the arrays are on one

    >>> p = weft.profile(module.scale[1, 32], x, 1.0, 4)
    >>> print(p.roofline.bound)
    latency
    """

    def __str__(self) -> str:
        from weft.report.text import text

        return text(self)

    def _repr_html_(self) -> str:
        from weft.report.page import fragment

        return fragment(self)

    def save(self, path: str | Path) -> None:
        """Writes a page (.html) or a record (.json)."""
        ending = Path(path).suffix
        if ending == ".json":
            save_record([self], path)
            return
        if ending not in (".html", ".htm"):
            raise Error(
                "a profile is saved as a page or as a record",
                got=f"{str(path)!r}",
                allowed=".html (a page), .json (a record)",
                next=f'p.save("{Path(path).stem or "p"}.html"); a browser can print it',
            )
        from weft.report.page import page

        write(path, page([self]))

    @classmethod
    def load(cls, path: str | Path) -> list[Profile]:
        """Reads the profiles of a record written by `save` or `weft profile --json`."""
        from weft.measure.profile import record

        return [with_views(p) for p in record.load(path)]


def with_views(p: values.Profile) -> Profile:
    """The same profile, with views."""
    return Profile(**vars(p))


def save_record(profiles: list[Profile], path: str | Path) -> None:
    """Writes a record for `Profile.load`."""
    from weft.measure.profile import record

    write(path, json.dumps(record.dump(list(profiles))))


def write(path: str | Path, text: str) -> None:
    """Writes a text file; raises weft.Error if that fails."""
    try:
        Path(path).write_text(text, encoding="utf-8")
    except OSError as error:
        raise Error("cannot write the file", where=str(path), got=error.strerror or "") from None


def profile(
    launch: Configured | Callable[..., Any],
    *args: Any,
    device: str | None = None,
    time_limit: float | None = None,
    block: int | None = None,
    gpu: str | None = None,
    **options: Any,
) -> Profile:
    """Runs one launch on the simulated GPU and returns its counters, roofline and advice.

    launch      `k[grid, block]`, or a callable that launches one kernel
    args        the arguments of the launch
    device      the model whose caches, limits and rates apply, e.g. "sim:rtx3070"; by default the
                kernel's own. "gpu" means the model of the GPU in this machine.
    time_limit  seconds that the launch may take
    block       the number of the block whose addresses are kept; by default the first and the last
    options     constants and options of a Triton kernel: BLOCK=128, num_warps=4
    gpu         deprecated: use `device`

    Arrays change as in any launch. If they are on a real GPU, the launch is also timed there by
    events. Counters are exact, except for those in `Profile.modelled`.

    >>> p = weft.profile(module.scale[1, 32], x, 10.0, 4, device="sim:rtx3070")
    >>> print(p.gpu, p.launch.kernel)
    rtx3070 scale
    """
    chosen = device if gpu is None else selected(device or "sim", gpu, name="gpu=")
    bare = not callable(launch) or hasattr(launch, "__getitem__")
    if isinstance(launch, Configured) or bare:
        settings: dict[str, Any] = {"device": chosen, "time_limit": time_limit, "block": block}
        return with_views(measured(cast(Configured, launch), *args, **settings, **options))
    from weft.measure.profile.session import Recording, recording

    model = None if chosen is None else select(chosen).model.key
    with recording(Recording(model)) as recorder:
        launch(*args, **options)
    return with_views(_only(recorder))


def _only(recorder: Recording) -> values.Profile:
    kernels = [p.launch.kernel for p in recorder.profiles]
    if len(kernels) == 1:
        return recorder.profiles[0]
    raise LaunchError(
        "profile takes what launches one kernel on the simulated GPU",
        got=", ".join(kernels) if kernels else "no launch on the simulated GPU",
        next="profile each by itself, or `weft profile script.py` for all of them",
    )
