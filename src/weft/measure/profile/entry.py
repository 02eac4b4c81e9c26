"""Implements `weft.profile`."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, cast

from weft.device.selection import select, selected
from weft.errors import LaunchError
from weft.kernels import Configured
from weft.measure.profile.profile import profile as measured
from weft.measure.profile.result import Profile

if TYPE_CHECKING:  # a process that profiles one launch does not import it
    from weft.measure.profile.session import Recording


def profile(
    launch: Configured | Callable[..., Any],
    *args: Any,
    device: str | None = None,
    time_limit: float | None = None,
    block: int | None = None,
    gpu: str | None = None,
    **options: Any,
) -> Profile:
    """Run one launch on the simulated GPU and return its counters, roofline and advice.

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
        return measured(cast(Configured, launch), *args, **settings, **options)
    from weft.measure.profile.session import Recording, recording

    model = None if chosen is None else select(chosen).model.key
    with recording(Recording(model)) as recorder:
        launch(*args, **options)
    return _only(recorder)


def _only(recorder: Recording) -> Profile:
    kernels = [p.launch.kernel for p in recorder.profiles]
    if len(kernels) == 1:
        return recorder.profiles[0]
    raise LaunchError(
        "profile takes what launches one kernel on the simulated GPU",
        got=", ".join(kernels) if kernels else "no launch on the simulated GPU",
        next="profile each by itself, or `weft profile script.py` for all of them",
    )
