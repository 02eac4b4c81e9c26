"""Lets `torch.compile` write Triton kernels for the simulated GPU.

Tensors of a script are on the CPU, so Inductor's generator of Triton kernels is selected for the
CPU. Its kernels are compiled for the simulated GPU, by the driver that weft installs in Triton.
Matrix products and convolutions stay calls of PyTorch's library, as they are on a GPU by default.
"""

from __future__ import annotations

import functools
import os
import sys
from collections.abc import Callable
from typing import Any

from weft import cache
from weft.device.models import GpuModel
from weft.frontends import autotuning, clock

Hook = Callable[[], None]


def hooks(model: GpuModel, *, autotune: bool, show: bool) -> dict[str, Hook]:
    """Module of torch -> hook to run after its import."""
    found: dict[str, Hook] = {
        "torch._inductor.config": functools.partial(_config, model),
        "torch._inductor.runtime.hints": functools.partial(_hints, model),
        "torch._inductor.runtime.triton_helpers": _triton_helpers,
        "torch._inductor.runtime.benchmarking": _benchmarking,
        "torch._dynamo.device_interface": _device_interface,
    }
    found["torch.nn.attention.flex_attention"] = _flex_attention
    if not autotune:
        found["torch._inductor.runtime.triton_heuristics"] = _first_configuration
    if show:
        found["torch._inductor.async_compile"] = _show_kernels
    return found


def _config(model: GpuModel) -> None:
    config: Any = sys.modules["torch._inductor.config"]
    # Generated code contains properties of the GPU.
    os.environ.setdefault("TORCHINDUCTOR_CACHE_DIR", cache.folder(f"inductor-{model.key}"))
    config.cpu_backend = "triton"
    # Worker processes would not have weft's driver.
    config.compile_threads = 1
    # Templates of products are for a GPU's tensors; their timing would need generated code for it.
    config.max_autotune_gemm_backends = "ATEN"
    config.benchmark_epilogue_fusion = False
    # Launchers in C++, which call the CUDA driver themselves.
    for name in ("use_static_triton_launcher", "use_static_cuda_launcher"):
        if hasattr(config, name):
            setattr(config, name, False)


def _hints(model: GpuModel) -> None:
    """Describe the simulated GPU wherever Inductor asks for the CPU."""
    properties = sys.modules["torch._inductor.runtime.hints"].DeviceProperties
    simulated = properties(
        type="cuda",
        index=0,
        multi_processor_count=model.sms,
        cc=model.triton_arch,
        major=model.compute_capability[0],
        regs_per_multiprocessor=model.registers_per_sm,
        max_threads_per_multi_processor=model.max_threads_per_sm,
        max_threads_per_block=model.max_threads_per_block,
        warp_size=model.warp_size,
    )
    properties.create = staticmethod(lambda device: simulated)


def _flex_attention() -> None:
    """Allow gradients, which torch's own code for the CPU lacks."""
    flex: Any = sys.modules["torch.nn.attention.flex_attention"]
    flex._validate_device = lambda query, key, value: None


def _triton_helpers() -> None:
    helpers: Any = sys.modules["torch._inductor.runtime.triton_helpers"]
    # weft's driver is active already.
    helpers.set_driver_to_cpu = lambda: None
    helpers.set_driver_to_gpu = lambda: None


def _device_interface() -> None:
    from weft.frontends.pytorch import operations  # it imports torch, which the script does first

    operations.skip_dynamo()
    interface: Any = sys.modules["torch._dynamo.device_interface"]
    interface.CpuInterface.raise_if_triton_unavailable = staticmethod(lambda device=None: None)
    interface.CudaInterface.get_raw_stream = staticmethod(lambda device=None: 0)


def _benchmarking() -> None:
    benchmarking: Any = sys.modules["torch._inductor.runtime.benchmarking"]
    benchmarking.benchmarker.benchmark_gpu = lambda call, **_: clock.bench(call)


def _first_configuration() -> None:
    """Take the first configuration that compiles instead of timing all of them."""
    heuristics: Any = sys.modules["torch._inductor.runtime.triton_heuristics"]
    tuner = heuristics.CachingAutotuner
    compile_all = tuner._precompile_worker

    def compile_first(self: Any) -> None:
        configs = self.configs
        if self.compile_results or not configs or len(configs) == 1:
            compile_all(self)
            return
        autotuning.say_once()
        for config in configs:
            self.configs = [config]
            try:
                compile_all(self)
            except heuristics.NoTritonConfigsError:
                if config is configs[-1]:
                    raise
            else:
                return

    tuner._precompile_worker = compile_first


def _show_kernels() -> None:
    """Print each kernel that Inductor writes, from its `@triton.jit` on."""
    compiler: Any = sys.modules["torch._inductor.async_compile"].AsyncCompile
    compile_one = compiler.triton
    shown = set()

    def show(self: Any, name: str, source: str, *args: Any, **options: Any) -> Any:
        if name not in shown:
            shown.add(name)
            text = source[max(source.find("@triton.jit"), 0) :].strip()
            print(f"# a kernel by torch.compile\n{text}\n", file=sys.stderr)
        return compile_one(self, name, source, *args, **options)

    compiler.triton = show
