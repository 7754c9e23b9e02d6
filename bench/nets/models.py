"""The networks: a torch module with seeded random weights, and inputs, by name."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from .vision import (
    ConvNext,
    DenseNet,
    EfficientNet,
    MobileNetV2,
    MobileNetV3,
    ResNet,
    UNet,
    calibrated,
)

__all__ = ["NETS", "Made", "made"]


@dataclass(frozen=True, slots=True)
class Made:
    """A module that is ready for inference, and the tensors it is called with, by name."""

    module: nn.Module
    inputs: dict[str, Tensor]


def made(name: str) -> Made:
    """Returns a network; the same weights and inputs every time."""
    torch.manual_seed(0)
    net = NETS[name]()
    with torch.no_grad():
        for parameter in net.module.parameters():
            if parameter.ndim == 1:  # biases of 0 and scales of 1 would fold away
                parameter += 0.02 * torch.randn_like(parameter)
    return net


def _image(make: Callable[[], nn.Module]) -> Callable[[], Made]:
    def build() -> Made:
        module, x = make(), torch.randn(1, 3, 224, 224)
        return Made(calibrated(module, x), {"x": x})

    return build


class _Hidden(nn.Module):
    """Takes the last hidden state alone out of what a model of ``transformers`` returns."""

    def __init__(self, model: nn.Module, argument: str, **options: Any) -> None:
        super().__init__()
        self.model, self.argument, self.options = model, argument, options

    def forward(self, x: Tensor) -> Tensor:
        result = self.model(**{self.argument: x}, **self.options)
        return result.last_hidden_state if hasattr(result, "last_hidden_state") else result.logits


def _tokens(model: nn.Module, words: int, length: int, **options: Any) -> Made:
    module = _Hidden(model, "input_ids", **options).eval()
    return Made(module, {"x": torch.randint(0, words, (1, length))})


def _bert() -> Made:
    from transformers import BertConfig, BertModel

    config = BertConfig(attn_implementation="sdpa")
    return _tokens(BertModel(config, add_pooling_layer=False), config.vocab_size, 128)


def _gpt2() -> Made:
    from transformers import GPT2Config, GPT2LMHeadModel

    config = GPT2Config(use_cache=False)
    return _tokens(GPT2LMHeadModel(config), config.vocab_size, 64, use_cache=False)


def _vit() -> Made:
    from transformers import ViTConfig, ViTModel

    model = ViTModel(ViTConfig(), add_pooling_layer=False)
    return Made(_Hidden(model, "pixel_values").eval(), {"x": torch.randn(1, 3, 224, 224)})


def _llama() -> Made:
    from transformers import LlamaConfig, LlamaModel

    config = LlamaConfig(
        hidden_size=768,
        intermediate_size=2048,
        num_hidden_layers=4,
        num_attention_heads=12,
        num_key_value_heads=4,
        vocab_size=8192,
        use_cache=False,
    )
    return _tokens(LlamaModel(config), config.vocab_size, 64, use_cache=False)


def _t5() -> Made:
    from transformers import T5Config, T5EncoderModel

    config = T5Config(d_model=512, d_ff=2048, num_layers=6, use_cache=False)
    return _tokens(T5EncoderModel(config), config.vocab_size, 64)


def _whisper() -> Made:
    from transformers import WhisperConfig
    from transformers.models.whisper.modeling_whisper import WhisperEncoder

    config = WhisperConfig(d_model=384, encoder_layers=4, encoder_attention_heads=6)
    config.encoder_ffn_dim = 1536
    module = _Hidden(WhisperEncoder(config), "input_features").eval()
    return Made(module, {"x": torch.randn(1, 80, 3000)})


class _Recurrent(nn.Module):
    """Two layers of LSTM over a sequence, and a product on its last state."""

    def __init__(self) -> None:
        super().__init__()
        self.lstm = nn.LSTM(80, 256, num_layers=2, batch_first=True)
        self.classify = nn.Linear(256, 40)

    def forward(self, x: Tensor) -> Tensor:
        return self.classify(self.lstm(x)[0][:, -1])


NETS: dict[str, Callable[[], Made]] = {
    "resnet18": _image(lambda: ResNet((2, 2, 2, 2), bottleneck=False)),
    "resnet50": _image(lambda: ResNet((3, 4, 6, 3), bottleneck=True)),
    "mobilenetv2": _image(MobileNetV2),
    "bert": _bert,
    "gpt2": _gpt2,
    "vit": _vit,
    "efficientnet": _image(EfficientNet),
    "convnext": _image(ConvNext),
    "llama": _llama,
    "whisper": _whisper,
    "mobilenetv3": _image(MobileNetV3),
    "densenet": _image(DenseNet),
    "resnext": _image(lambda: ResNet((3, 4, 6, 3), bottleneck=True, groups=32)),
    "unet": _image(UNet),
    "t5": _t5,
    "lstm": lambda: Made(_Recurrent().eval(), {"x": torch.randn(1, 50, 80)}),
}
"""Batch 1; 128 tokens for BERT, 64 for GPT-2, Llama and T5. The first six are those with bars."""
