"""Memory of a GPU by its address: copies to and from the host."""

from __future__ import annotations

import ctypes

from weft.device import driver
from weft.device.gpu import pending


def read(address: int, nbytes: int, device: int) -> bytes:
    """Bytes of a GPU, after all that was launched before."""
    out = ctypes.create_string_buffer(nbytes)
    with driver.current(device):
        # The copy alone waits for the default stream, but not for non-blocking ones.
        code = driver.library().cuCtxSynchronize() or driver.library().cuMemcpyDtoH_v2(
            out, ctypes.c_uint64(address), ctypes.c_size_t(nbytes)
        )
    if code:
        raise pending.failure(code)
    return out.raw


def write(address: int, data: bytes, device: int) -> None:
    """Put bytes on a GPU, after all that was launched before."""
    with driver.current(device):
        code = driver.library().cuCtxSynchronize() or driver.library().cuMemcpyHtoD_v2(
            ctypes.c_uint64(address), data, ctypes.c_size_t(len(data))
        )
    if code:
        raise pending.failure(code)
