"""Llama, Qwen and GPT-2 in plain PyTorch: no cache, no batch, straight from the public names.

Weights are drawn for the public names and shapes, and the whole text is computed for each token.
"""

from __future__ import annotations

import json
import math
import struct
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F

import draw

LLAMA = {
    "model_type": "llama", "vocab_size": 61, "hidden_size": 32, "num_hidden_layers": 2,
    "num_attention_heads": 4, "num_key_value_heads": 2, "intermediate_size": 48,
    "head_dim": 16, "max_position_embeddings": 64, "rms_norm_eps": 1e-5, "rope_theta": 500.0,
    "hidden_act": "silu", "tie_word_embeddings": False, "eos_token_id": None,
    "rope_scaling": {
        "rope_type": "llama3", "factor": 4.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
        "original_max_position_embeddings": 32,
    },
}  # fmt: skip
QWEN2 = {
    **LLAMA, "model_type": "qwen2", "tie_word_embeddings": True, "rope_scaling": None,
    "rms_norm_eps": 1e-6,
}  # fmt: skip
QWEN3 = {**QWEN2, "model_type": "qwen3", "attention_bias": False, "num_hidden_layers": 1}
GPT2 = {
    "model_type": "gpt2", "vocab_size": 61, "n_embd": 32, "n_layer": 2, "n_head": 2,
    "n_positions": 64, "layer_norm_epsilon": 1e-5, "activation_function": "gelu_new",
    "eos_token_id": 60,
}  # fmt: skip
MISTRAL = {**LLAMA, "model_type": "mistral", "rope_scaling": None, "sliding_window": 4}
WINDOWED = {**QWEN2, "use_sliding_window": True, "sliding_window": 3, "max_window_layers": 1}
"""A Mistral, and a Qwen 2 whose second layer has a window."""
CONFIGS = {"llama": LLAMA, "qwen2": QWEN2, "qwen3": QWEN3, "gpt2": GPT2}
NAMES = {
    torch.float32: "F32", torch.float16: "F16", torch.bfloat16: "BF16", torch.int32: "I32",
    torch.int64: "I64", torch.int8: "I8", torch.uint8: "U8", torch.float8_e4m3fn: "F8_E4M3",
    torch.float64: "F64",
}  # fmt: skip


def shapes(c: Mapping[str, Any]) -> dict[str, tuple[int, ...]]:
    """The public names of a model's weights, and their shapes."""
    if c["model_type"] == "gpt2":
        return _gpt2_shapes(c)
    width, size, hidden = c["hidden_size"], c["head_dim"], c["intermediate_size"]
    q, kv = c["num_attention_heads"] * size, c["num_key_value_heads"] * size
    found: dict[str, tuple[int, ...]] = {"model.embed_tokens.weight": (c["vocab_size"], width)}
    for i in range(c["num_hidden_layers"]):
        layer = {
            "input_layernorm.weight": (width,), "post_attention_layernorm.weight": (width,),
            "self_attn.q_proj.weight": (q, width), "self_attn.k_proj.weight": (kv, width),
            "self_attn.v_proj.weight": (kv, width), "self_attn.o_proj.weight": (width, q),
            "mlp.gate_proj.weight": (hidden, width), "mlp.up_proj.weight": (hidden, width),
            "mlp.down_proj.weight": (width, hidden),
        }  # fmt: skip
        if c["model_type"] == "qwen2":
            layer |= {f"self_attn.{n}_proj.bias": (q if n == "q" else kv,) for n in "qkv"}
        if c["model_type"] == "qwen3":
            layer |= {f"self_attn.{n}_norm.weight": (size,) for n in "qk"}
        found |= {f"model.layers.{i}.{name}": shape for name, shape in layer.items()}
    found["model.norm.weight"] = (width,)
    if not c["tie_word_embeddings"]:
        found["lm_head.weight"] = (c["vocab_size"], width)
    return found


def _gpt2_shapes(c: Mapping[str, Any]) -> dict[str, tuple[int, ...]]:
    n = c["n_embd"]
    found: dict[str, tuple[int, ...]] = {
        "wte.weight": (c["vocab_size"], n),
        "wpe.weight": (c["n_positions"], n),
    }
    for i in range(c["n_layer"]):
        layers = {"attn.c_attn": (n, 3 * n), "attn.c_proj": (n, n), "mlp.c_fc": (n, 4 * n),
                  "mlp.c_proj": (4 * n, n)}  # fmt: skip
        for name, shape in layers.items():
            found |= {f"h.{i}.{name}.weight": shape, f"h.{i}.{name}.bias": shape[1:]}
        for name in ("ln_1", "ln_2"):
            found |= {f"h.{i}.{name}.{part}": (n,) for part in ("weight", "bias")}
    return {f"transformer.{k}": v for k, v in found.items()} | {
        f"transformer.ln_f.{part}": (n,) for part in ("weight", "bias")
    }


def weights(c: Mapping[str, Any], seed: int = 1, dtype: Any = torch.float32) -> dict[str, Any]:
    """Random weights: norms near 1, others so large that tokens depend on the whole text."""
    stream, made = draw.seeded(seed), {}
    for name, shape in shapes(c).items():
        x = stream.normal(*shape)
        is_norm = "norm" in name or ".ln_" in name
        x = 1 + 0.1 * x if is_norm and name.endswith("weight") else 0.3 * x
        made[name] = x.to(dtype)
    return made


def write(
    folder: Path,
    c: Mapping[str, Any],
    stored: Mapping[str, Any],
    shards: int = 1,
    texts: Mapping[str, str] | None = None,
) -> Path:
    """Write config.json and safetensors files, whose headers have the texts."""
    folder.mkdir(exist_ok=True)
    (folder / "config.json").write_text(json.dumps(c))
    if shards == 1:
        (folder / "model.safetensors").write_bytes(as_bytes(stored, texts))
        return folder
    places = {key: f"model-{i % shards + 1}.safetensors" for i, key in enumerate(stored)}
    for name in set(places.values()):
        part = {key: x for key, x in stored.items() if places[key] == name}
        (folder / name).write_bytes(as_bytes(part, texts))
    index = {"metadata": {}, "weight_map": places}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    return folder


def as_bytes(stored: Mapping[str, Any], texts: Mapping[str, str] | None = None) -> bytes:
    """A safetensors file."""
    header: dict[str, Any] = {"__metadata__": {"format": "pt", **(texts or {})}}
    data = b""
    for key, x in stored.items():
        raw = x.contiguous().reshape(-1).view(torch.uint8).numpy().tobytes()
        offsets = [len(data), len(data) + len(raw)]
        header[key] = {"dtype": NAMES[x.dtype], "shape": list(x.shape), "data_offsets": offsets}
        data += raw
    text = json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + data


# ---- the model -----------------------------------------------------------------------------------
def logits(c: Mapping[str, Any], w: Mapping[str, Any], tokens: Sequence[int]) -> Any:
    """The logits of the token that follows, in float64."""
    w = {key.removeprefix("transformer."): x.double() for key, x in w.items()}
    return (_gpt2 if c["model_type"] == "gpt2" else _llama)(c, w, torch.tensor(tokens))[-1]


def greedy(
    c: Mapping[str, Any], w: Mapping[str, Any], prompt: Sequence[int], count: int
) -> tuple[list[int], float]:
    """The most probable tokens, and the least lead of one over the next."""
    text, lead = list(prompt), math.inf
    for _ in range(count):
        first, second = logits(c, w, text).topk(2).values.tolist()
        lead = min(lead, first - second)
        text.append(int(logits(c, w, text).argmax()))
    return text[len(prompt) :], lead


def _llama(c: Mapping[str, Any], w: Mapping[str, Any], tokens: Any) -> Any:
    def norm(x: Any, name: str) -> Any:
        return F.rms_norm(x, x.shape[-1:], w[name], c["rms_norm_eps"])

    x = w["model.embed_tokens.weight"][tokens]
    n, size = len(tokens), c["head_dim"]
    frequencies = torch.tensor([_frequency(c, i) for i in range(size // 2)], dtype=torch.float64)
    turn = torch.polar(
        torch.ones(n, size // 2, dtype=torch.float64),
        torch.outer(torch.arange(n, dtype=torch.float64), frequencies),
    )
    for i in range(c["num_hidden_layers"]):
        at = f"model.layers.{i}."
        y = norm(x, f"{at}input_layernorm.weight")
        heads = []
        for name in "qkv":
            bias = w.get(f"{at}self_attn.{name}_proj.bias")
            h = F.linear(y, w[f"{at}self_attn.{name}_proj.weight"], bias)
            h = h.view(n, -1, size).transpose(0, 1)
            if f"{at}self_attn.{name}_norm.weight" in w:
                h = norm(h, f"{at}self_attn.{name}_norm.weight")
            if name != "v":
                a, b = h.chunk(2, -1)
                turned = torch.complex(a, b) * turn
                h = torch.cat((turned.real, turned.imag), -1)
            heads.append(h)
        seen = torch.ones(n, n, dtype=torch.bool).tril().triu(1 - (_window(c, i) or n))
        y = F.scaled_dot_product_attention(*heads, seen, enable_gqa=True)
        x = x + F.linear(y.transpose(0, 1).flatten(1), w[f"{at}self_attn.o_proj.weight"])
        y = norm(x, f"{at}post_attention_layernorm.weight")
        gate, up = (F.linear(y, w[f"{at}mlp.{part}_proj.weight"]) for part in ("gate", "up"))
        x = x + F.linear(F.silu(gate) * up, w[f"{at}mlp.down_proj.weight"])
    head = w.get("lm_head.weight", w["model.embed_tokens.weight"])
    return F.linear(norm(x, "model.norm.weight"), head)


def _window(c: Mapping[str, Any], i: int) -> int:
    """The tokens that a token sees in a layer, its own one included; 0: all before it."""
    kind = c["model_type"]
    if kind == "llama" or (kind != "mistral" and not c.get("use_sliding_window")):
        return 0
    if kind == "mistral" or i >= c["max_window_layers"]:
        return c.get("sliding_window") or 0
    return 0


def _frequency(c: Mapping[str, Any], i: int) -> float:
    """A rotary frequency, by the words of the Llama 3.1 report."""
    frequency: float = c["rope_theta"] ** (-2 * i / c["head_dim"])
    s = c["rope_scaling"]
    if s is None:
        return frequency
    wave, original = 2 * math.pi / frequency, s["original_max_position_embeddings"]
    if wave < original / s["high_freq_factor"]:
        return frequency
    if wave > original / s["low_freq_factor"]:
        return frequency / float(s["factor"])
    smooth = (original / wave - s["low_freq_factor"]) / (
        s["high_freq_factor"] - s["low_freq_factor"]
    )
    return float((1 - smooth) * frequency / s["factor"] + smooth * frequency)


def _gpt2(c: Mapping[str, Any], w: Mapping[str, Any], tokens: Any) -> Any:
    width, heads = c["n_embd"], c["n_head"]

    def norm(x: Any, name: str) -> Any:
        eps = c["layer_norm_epsilon"]
        return F.layer_norm(x, (width,), w[f"{name}.weight"], w[f"{name}.bias"], eps)

    def layer(x: Any, name: str) -> Any:
        return x @ w[f"{name}.weight"] + w[f"{name}.bias"]

    n = len(tokens)
    x = w["wte.weight"][tokens] + w["wpe.weight"][:n]
    for i in range(c["n_layer"]):
        at = f"h.{i}."
        packed = layer(norm(x, f"{at}ln_1"), f"{at}attn.c_attn").split(width, -1)
        q, k, v = (h.view(n, heads, -1).transpose(0, 1) for h in packed)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + layer(y.transpose(0, 1).flatten(1), f"{at}attn.c_proj")
        y = F.gelu(layer(norm(x, f"{at}ln_2"), f"{at}mlp.c_fc"), approximate="tanh")
        x = x + layer(y, f"{at}mlp.c_proj")
    return norm(x, "ln_f") @ w["wte.weight"].T
