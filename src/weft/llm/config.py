"""The sizes of a decoder, from the config.json of a public model."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from weft.errors import ArgumentError

FAMILIES = ("llama", "mistral", "qwen2", "qwen3", "gpt2")
"""Values of `model_type` that are known."""
_WINDOW = 4096
"""Positions that a token sees in layers with a window, where config.json does not tell."""
_FULL_LAYERS = 28
"""Layers of Qwen without a window, where config.json does not tell."""
_LAYERS = ("full_attention", "sliding_attention")
"""Values of `layer_types`."""


@dataclass(frozen=True)
class Scaling:
    """Rotary frequencies of Llama 3.1: long waves are stretched by `factor`.

    low, high  waves longer than `original` / low are stretched, those shorter than `original` /
               high are not; between both, in proportion
    original   positions that the model was first trained with
    """

    factor: float
    low: float
    high: float
    original: int


@dataclass(frozen=True)
class DecoderConfig:
    """The sizes of a decoder.

    family     llama, mistral, qwen2, qwen3 or gpt2
    head_size  elements of a head
    hidden     width of the feed-forward layers
    context    the most positions
    theta      the base of rotary frequencies
    tied       the head has the weight of the embedding
    stop       tokens that end a text
    windows    the last tokens that a token sees in each layer, its own one included; 0: all of
               them. (): all in every layer
    """

    family: str
    vocabulary: int
    width: int
    depth: int
    heads: int
    kv_heads: int
    head_size: int
    hidden: int
    context: int
    eps: float = 1e-6
    theta: float = 10000.0
    scaling: Scaling | None = None
    tied: bool = False
    stop: tuple[int, ...] = ()
    windows: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        if self.family not in FAMILIES:
            raise ArgumentError(
                "weft.llm: this family of models is not known",
                got=repr(self.family),
                allowed=", ".join(FAMILIES),
            )
        sizes = {n: v for n, v in vars(self).items() if type(v) is int}
        if wrong := {n: v for n, v in sizes.items() if v < 1}:
            raise ArgumentError(
                "weft.llm: the sizes of a model must be at least 1",
                got=", ".join(f"{n} {v}" for n, v in wrong.items()),
            )
        if self.heads % self.kv_heads or self.head_size % 2:
            raise ArgumentError(
                "weft.llm: the heads of a model do not fit",
                got=f"{self.heads} heads, {self.kv_heads} of keys, size {self.head_size}",
                allowed="heads a multiple of those of keys; an even size",
            )
        if self.windows and (len(self.windows) != self.depth or min(self.windows) < 0):
            raise ArgumentError(
                "weft.llm: the windows of a model do not fit",
                got=str(self.windows),
                allowed=f"a number of at least 0 for each of {self.depth} layers; or none",
            )

    @property
    def is_gpt2(self) -> bool:
        """True for learned positions, layer norms, GELU, and a bias in every layer."""
        return self.family == "gpt2"

    @property
    def qkv_bias(self) -> bool:
        """True if queries, keys and values have a bias."""
        return self.family in ("qwen2", "gpt2")

    @property
    def head_norm(self) -> bool:
        """True if the heads of queries and keys are normed."""
        return self.family == "qwen3"


def quantisation(path: Path) -> Any:
    """Read the facts of a config.json about weights of few bits; None if there are none."""
    found = _object(path)
    return found.get("quantization_config") or found.get("compression_config")


def read(path: Path) -> DecoderConfig:
    """Read a config.json; raise for a model that weft.llm does not compute."""
    fields = _Fields(_object(path), str(path))
    family = fields.text("model_type")
    if family not in FAMILIES:
        raise ArgumentError(
            "weft.llm: this family of models is not known",
            where=f"{path}: model_type",
            got=repr(family),
            allowed=", ".join(FAMILIES),
        )
    return _gpt2(fields) if family == "gpt2" else _rotary(family, fields)


def _object(path: Path) -> dict[str, Any]:
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ArgumentError(
            "weft.llm: the folder has no config.json that can be read",
            where=str(path),
            got=str(error),
        ) from None
    if not isinstance(found, dict):
        raise ArgumentError("weft.llm: config.json is no object", where=str(path))
    return found


class _Fields:
    """The entries of a config.json; a wrong one is named."""

    def __init__(self, found: dict[str, Any], where: str) -> None:
        self.found, self.where = found, where

    def number(self, name: str, default: Any = None) -> Any:
        value = self.found.get(name)
        value = default if value is None else value
        if type(value) not in (int, float):
            raise ArgumentError(
                f"weft.llm: config.json has no number '{name}'", where=self.where, got=repr(value)
            )
        return value

    def size(self, name: str, default: Any = None) -> int:
        value = self.number(name, default)
        if type(value) is not int:
            raise ArgumentError(
                f"weft.llm: '{name}' of config.json must be a whole number",
                where=self.where,
                got=repr(value),
            )
        return value

    def text(self, name: str) -> str:
        return str(self.found.get(name, ""))

    def stop(self) -> tuple[int, ...]:
        """The tokens that end a text: a number, a list or nothing."""
        value = self.found.get("eos_token_id")
        values = value if isinstance(value, list) else [] if value is None else [value]
        return tuple(int(v) for v in values)

    def need(self, name: str, *allowed: Any) -> None:
        """Raise unless an entry that is there has one of these values."""
        if name in self.found and self.found[name] not in allowed:
            raise ArgumentError(
                f"weft.llm: models with this '{name}' are not supported",
                where=self.where,
                got=repr(self.found[name]),
                allowed=", ".join(map(repr, allowed)),
            )


def _rotary(family: str, fields: _Fields) -> DecoderConfig:
    """Llama, Mistral and Qwen."""
    fields.need("hidden_act", "silu")
    fields.need("mlp_bias", False)
    fields.need("attention_bias", False)
    heads, width = fields.size("num_attention_heads"), fields.size("hidden_size")
    theta, scaling = _frequencies(fields)
    depth = fields.size("num_hidden_layers")
    return DecoderConfig(
        family=family,
        vocabulary=fields.size("vocab_size"),
        width=width,
        depth=depth,
        heads=heads,
        kv_heads=fields.size("num_key_value_heads", heads),
        head_size=fields.size("head_dim", width // max(heads, 1)),
        hidden=fields.size("intermediate_size"),
        context=fields.size("max_position_embeddings"),
        eps=fields.number("rms_norm_eps", 1e-6),
        theta=theta,
        scaling=scaling,
        tied=bool(fields.found.get("tie_word_embeddings", False)),
        stop=fields.stop(),
        windows=_windows(family, fields, depth),
    )


def _windows(family: str, fields: _Fields, depth: int) -> tuple[int, ...]:
    """The windows of layers: in Mistral of all, in Qwen of those after the first ones."""
    found, by_layer = fields.found, family.startswith("qwen")
    if not by_layer:
        fields.need("use_sliding_window", False, None)
    is_full = family == "llama" or (by_layer and not found.get("use_sliding_window", False))
    if is_full or found.get("sliding_window", _WINDOW) is None:
        return ()
    window = fields.size("sliding_window", _WINDOW)
    first = fields.size("max_window_layers", _FULL_LAYERS) if by_layer else 0
    kinds = found.get("layer_types") or [_LAYERS[i >= first] for i in range(depth)]
    if window < 1 or len(kinds) != depth or not set(kinds) <= set(_LAYERS):
        raise ArgumentError(
            "weft.llm: the windows of layers in config.json do not fit",
            where=fields.where,
            got=f"sliding_window {window}, layer_types {kinds}",
            allowed=f"a window of at least 1; for each of {depth} layers {' or '.join(_LAYERS)}",
        )
    return tuple(window if kind == _LAYERS[1] else 0 for kind in kinds)


def _frequencies(fields: _Fields) -> tuple[float, Scaling | None]:
    """The base of rotary frequencies, and how they are stretched."""
    given = fields.found.get("rope_parameters") or fields.found.get("rope_scaling") or {}
    theta = float(given.get("rope_theta") or fields.number("rope_theta", 10000.0))
    kind = given.get("rope_type", given.get("type", "default"))
    if kind == "default":
        return theta, None
    if kind != "llama3":
        raise ArgumentError(
            "weft.llm: models with this scaling of rotary frequencies are not supported",
            where=fields.where,
            got=repr(kind),
            allowed="'default', 'llama3'",
        )
    part = _Fields(given, fields.where)
    return theta, Scaling(
        float(part.number("factor")),
        float(part.number("low_freq_factor")),
        float(part.number("high_freq_factor")),
        part.size("original_max_position_embeddings"),
    )


def _gpt2(fields: _Fields) -> DecoderConfig:
    fields.need("activation_function", "gelu_new", "gelu_pytorch_tanh")
    fields.need("scale_attn_weights", True)
    fields.need("scale_attn_by_inverse_layer_idx", False)
    heads, width = fields.size("n_head"), fields.size("n_embd")
    return DecoderConfig(
        family="gpt2",
        vocabulary=fields.size("vocab_size"),
        width=width,
        depth=fields.size("n_layer"),
        heads=heads,
        kv_heads=heads,
        head_size=width // max(heads, 1),
        hidden=fields.size("n_inner", 4 * width),
        context=fields.size("n_positions"),
        eps=fields.number("layer_norm_epsilon", 1e-5),
        tied=True,
        stop=fields.stop(),
    )
