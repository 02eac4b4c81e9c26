"""Tiny configurations of the families that transformers_models.py compares, and their inputs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import transformers as t

SEED = 1
WORDS: dict[str, Any] = {"vocab_size": 97}
SIZES: dict[str, Any] = {
    "hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 96,
}  # fmt: skip
SHARED = {**WORDS, **SIZES, "num_key_value_heads": 2, "max_position_embeddings": 64}
STILL = {"hidden_dropout_prob": 0, "attention_probs_dropout_prob": 0}
Inputs = dict[str, Any]


def tokens(length: int = 16) -> Any:
    """Two texts."""
    return torch.randint(3, 90, (2, length), generator=torch.Generator().manual_seed(SEED))


def drawn(*shape: int) -> Any:
    """Normally distributed numbers."""
    return torch.randn(shape, generator=torch.Generator().manual_seed(SEED))


def text(length: int = 16) -> Inputs:
    """The texts, which are their own labels."""
    return {"input_ids": tokens(length), "labels": tokens(length)}


def padded() -> Inputs:
    """Texts of which the second one is half as long."""
    mask = torch.ones_like(tokens())
    mask[1, 8:] = 0
    return text() | {"attention_mask": mask}


def image(size: int) -> Inputs:
    """Two images and their classes."""
    return {"pixel_values": drawn(2, 3, size, size), "labels": torch.tensor([1, 0])}


def audio(name: str, *shape: int) -> Inputs:
    """Two sounds, or their spectra."""
    return {name: drawn(2, *shape)}


def build(model: str, config: str, **options: Any) -> Callable[[], Any]:
    """A model of a class, from its configuration."""
    return lambda: getattr(t, model)(getattr(t, config)(**options))


MODELS: dict[str, tuple[Callable[[], Any], Callable[[], Inputs]]] = {
    "bert": (build("BertForMaskedLM", "BertConfig", **WORDS, **SIZES, **STILL), text),
    "bloom": (build("BloomForCausalLM", "BloomConfig", **WORDS, hidden_size=64, n_layer=2, n_head=4,
                    hidden_dropout=0, attention_dropout=0), text),
    "clip": (build("CLIPModel", "CLIPConfig", projection_dim=32,
                   text_config={**WORDS, **SIZES, "max_position_embeddings": 32, "eos_token_id": 2},
                   vision_config={**SIZES, "image_size": 32, "patch_size": 8}),
             lambda: {"input_ids": tokens(), "pixel_values": drawn(2, 3, 32, 32),
                      "return_loss": True}),
    "convnext": (build("ConvNextForImageClassification", "ConvNextConfig",
                       hidden_sizes=[16, 32, 48, 64], depths=[1] * 4), lambda: image(64)),
    "deberta-v2": (build("DebertaV2ForSequenceClassification", "DebertaV2Config", **WORDS, **SIZES,
                         **STILL, relative_attention=True, position_buckets=8,
                         pos_att_type=["p2c", "c2p"]),
                   lambda: {"input_ids": tokens(), "labels": torch.tensor([1, 0])}),
    "deepseek-v3": (build("DeepseekV3ForCausalLM", "DeepseekV3Config",
                          **SHARED | {"num_key_value_heads": 4}, n_routed_experts=4,
                          n_group=2, topk_group=1, num_experts_per_tok=2,
                          moe_intermediate_size=32, first_k_dense_replace=1, kv_lora_rank=32,
                          q_lora_rank=48, qk_rope_head_dim=8, qk_nope_head_dim=16, v_head_dim=16),
                    text),
    "electra": (build("ElectraForTokenClassification", "ElectraConfig", **WORDS, **SIZES, **STILL,
                      embedding_size=32),
                lambda: {"input_ids": tokens(), "labels": tokens() % 2}),
    "falcon": (build("FalconForCausalLM", "FalconConfig", **WORDS, hidden_size=64,
                     num_hidden_layers=2, num_attention_heads=4, hidden_dropout=0,
                     attention_dropout=0), text),
    "fnet": (build("FNetForMaskedLM", "FNetConfig", **WORDS, hidden_size=64, num_hidden_layers=2,
                   intermediate_size=96, hidden_dropout_prob=0), text),
    "gemma2": (build("Gemma2ForCausalLM", "Gemma2Config", **SHARED, head_dim=16,
                     sliding_window=8), text),
    "gpt2": (build("GPT2LMHeadModel", "GPT2Config", **WORDS, n_embd=64, n_layer=2, n_head=4,
                   n_positions=64, resid_pdrop=0, embd_pdrop=0, attn_pdrop=0), text),
    "gpt-oss": (build("GptOssForCausalLM", "GptOssConfig", **SHARED, head_dim=16,
                      num_local_experts=4, num_experts_per_tok=2, sliding_window=8), text),
    "gpt-neox": (build("GPTNeoXForCausalLM", "GPTNeoXConfig", **WORDS, **SIZES,
                       max_position_embeddings=64), text),
    "llama": (build("LlamaForCausalLM", "LlamaConfig", **SHARED), text),
    "longformer": (build("LongformerForMaskedLM", "LongformerConfig", **WORDS, **SIZES, **STILL,
                         attention_window=8, max_position_embeddings=64, pad_token_id=1),
                   lambda: text(32)),
    "mamba": (build("MambaForCausalLM", "MambaConfig", **WORDS, hidden_size=64,
                    num_hidden_layers=2, state_size=8), text),
    "mixtral": (build("MixtralForCausalLM", "MixtralConfig", **SHARED, num_local_experts=4), text),
    "mobilenet-v2": (build("MobileNetV2ForImageClassification", "MobileNetV2Config",
                           depth_multiplier=0.25, image_size=64, classifier_dropout_prob=0),
                     lambda: image(64)),
    "olmo2": (build("Olmo2ForCausalLM", "Olmo2Config", **SHARED), text),
    "opt": (build("OPTForCausalLM", "OPTConfig", **WORDS, hidden_size=64, num_hidden_layers=2,
                  num_attention_heads=4, ffn_dim=96, max_position_embeddings=64,
                  word_embed_proj_dim=64, dropout=0, attention_dropout=0), text),
    "phi3": (build("Phi3ForCausalLM", "Phi3Config", **SHARED, pad_token_id=0), text),
    "qwen3": (build("Qwen3ForCausalLM", "Qwen3Config", **SHARED, head_dim=16), padded),
    "qwen3-next": (build("Qwen3NextForCausalLM", "Qwen3NextConfig",
                         **SHARED | {"num_hidden_layers": 4}, head_dim=16, num_experts=4,
                         num_experts_per_tok=2, moe_intermediate_size=32,
                         shared_expert_intermediate_size=32, linear_num_value_heads=4,
                         linear_num_key_heads=2, linear_key_head_dim=16,
                         linear_value_head_dim=16), text),
    "resnet": (build("ResNetForImageClassification", "ResNetConfig", embedding_size=16,
                     hidden_sizes=[16, 32, 48, 64], depths=[1] * 4), lambda: image(64)),
    "segformer": (build("SegformerForSemanticSegmentation", "SegformerConfig",
                        hidden_sizes=[16, 32], depths=[1, 1], num_encoder_blocks=2,
                        sr_ratios=[2, 1], patch_sizes=[7, 3], strides=[4, 2],
                        num_attention_heads=[1, 2], mlp_ratios=[2, 2], decoder_hidden_size=32,
                        hidden_dropout_prob=0, drop_path_rate=0, classifier_dropout_prob=0),
                  lambda: image(64) | {"labels": (drawn(2, 64, 64) > 0).long()}),
    "swin": (build("SwinForImageClassification", "SwinConfig", image_size=32, patch_size=2,
                   embed_dim=16, depths=[1, 1], num_heads=[2, 4], window_size=4, drop_path_rate=0,
                   hidden_dropout_prob=0), lambda: image(32)),
    "t5": (build("T5ForConditionalGeneration", "T5Config", **WORDS, d_model=64, d_kv=16, d_ff=96,
                 num_layers=2, num_heads=4, dropout_rate=0, feed_forward_proj="gated-gelu",
                 decoder_start_token_id=0, pad_token_id=0), text),
    "vit": (build("ViTForImageClassification", "ViTConfig", **SIZES, **STILL, image_size=32,
                  patch_size=8), lambda: image(32)),
    "wav2vec2": (build("Wav2Vec2ForSequenceClassification", "Wav2Vec2Config", **SIZES,
                       conv_dim=(16, 16), conv_stride=(5, 2), conv_kernel=(10, 3),
                       num_feat_extract_layers=2, hidden_dropout=0, attention_dropout=0,
                       activation_dropout=0, feat_proj_dropout=0, layerdrop=0,
                       apply_spec_augment=False, num_conv_pos_embeddings=16,
                       num_conv_pos_embedding_groups=4),
                 lambda: audio("input_values", 400) | {"labels": torch.tensor([1, 0])}),
    "whisper": (build("WhisperForConditionalGeneration", "WhisperConfig", **WORDS, d_model=64,
                      encoder_layers=1, decoder_layers=1, encoder_attention_heads=4,
                      decoder_attention_heads=4, encoder_ffn_dim=96, decoder_ffn_dim=96,
                      num_mel_bins=16, max_source_positions=16, max_target_positions=32,
                      pad_token_id=0, bos_token_id=1, eos_token_id=2, decoder_start_token_id=1,
                      dropout=0),
                lambda: audio("input_features", 16, 32) | {"labels": tokens()}),
}  # fmt: skip
