"""Networks of images, as torch modules with random weights."""

from __future__ import annotations

import torch
from torch import Tensor, nn

__all__ = ["ConvNext", "EfficientNet", "MobileNetV2", "ResNet", "calibrated"]


def _conv_norm(
    inputs: int, outputs: int, size: int, stride: int = 1, groups: int = 1
) -> list[nn.Module]:
    conv = nn.Conv2d(inputs, outputs, size, stride, size // 2, groups=groups, bias=False)
    return [conv, nn.BatchNorm2d(outputs)]


class _Residual(nn.Module):
    """A ResNet block: two 3x3 convolutions, or a bottleneck of 1x1, 3x3 and 1x1."""

    def __init__(self, inputs: int, width: int, stride: int, bottleneck: bool) -> None:
        super().__init__()
        outputs = 4 * width if bottleneck else width
        if bottleneck:
            body = [*_conv_norm(inputs, width, 1), nn.ReLU(), *_conv_norm(width, width, 3, stride)]
            body += [nn.ReLU(), *_conv_norm(width, outputs, 1)]
        else:
            body = [*_conv_norm(inputs, width, 3, stride), nn.ReLU(), *_conv_norm(width, width, 3)]
        self.body = nn.Sequential(*body)
        same = stride == 1 and inputs == outputs
        self.skip = (
            nn.Identity() if same else nn.Sequential(*_conv_norm(inputs, outputs, 1, stride))
        )

    def forward(self, x: Tensor) -> Tensor:
        return torch.relu(self.body(x) + self.skip(x))


class ResNet(nn.Module):
    """K. He et al., 2016, with the stride in the 3x3 convolution of a bottleneck."""

    def __init__(
        self, depths: tuple[int, ...], bottleneck: bool, width: int = 64, classes: int = 1000
    ) -> None:
        super().__init__()
        layers = [*_conv_norm(3, width, 7, 2), nn.ReLU(), nn.MaxPool2d(3, 2, 1)]
        channels = width
        for stage, depth in enumerate(depths):
            for block in range(depth):
                stride = 2 if stage and not block else 1
                layers.append(_Residual(channels, width << stage, stride, bottleneck))
                channels = (width << stage) * (4 if bottleneck else 1)
        self.body = nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten())
        self.classify = nn.Linear(channels, classes)

    def forward(self, x: Tensor) -> Tensor:
        return self.classify(self.body(x))


class _Inverted(nn.Module):
    """An inverted residual: widen by 1x1, depthwise, (squeeze and excite,) narrow by 1x1."""

    def __init__(
        self, inputs: int, outputs: int, size: int, stride: int, factor: int, squeeze: bool
    ) -> None:
        super().__init__()
        wide = inputs * factor
        activation = nn.SiLU if squeeze else nn.ReLU6
        body = [*_conv_norm(inputs, wide, 1), activation()] if factor > 1 else []
        body += [*_conv_norm(wide, wide, size, stride, wide), activation()]
        if squeeze:
            body.append(_Excite(wide, inputs // 4))
        self.body = nn.Sequential(*body, *_conv_norm(wide, outputs, 1))
        self.adds = stride == 1 and inputs == outputs

    def forward(self, x: Tensor) -> Tensor:
        return x + self.body(x) if self.adds else self.body(x)


class _Excite(nn.Module):
    def __init__(self, channels: int, narrow: int) -> None:
        super().__init__()
        self.down, self.up = nn.Conv2d(channels, narrow, 1), nn.Conv2d(narrow, channels, 1)

    def forward(self, x: Tensor) -> Tensor:
        mean = x.mean((2, 3), keepdim=True)
        return x * torch.sigmoid(self.up(nn.functional.silu(self.down(mean))))


class MobileNetV2(nn.Module):
    """M. Sandler et al., 2018."""

    STAGES = ((1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1))
    STAGES += ((6, 160, 3, 2), (6, 320, 1, 1))  # factor, channels, blocks, stride

    def __init__(self) -> None:
        super().__init__()
        layers, channels = [*_conv_norm(3, 32, 3, 2), nn.ReLU6()], 32
        for factor, outputs, blocks, stride in self.STAGES:
            for block in range(blocks):
                layers.append(
                    _Inverted(channels, outputs, 3, 1 if block else stride, factor, squeeze=False)
                )
                channels = outputs
        layers += [
            *_conv_norm(channels, 1280, 1),
            nn.ReLU6(),
            nn.AdaptiveAvgPool2d(1),
            nn.Flatten(),
        ]
        self.body, self.classify = nn.Sequential(*layers), nn.Linear(1280, 1000)

    def forward(self, x: Tensor) -> Tensor:
        return self.classify(self.body(x))


class EfficientNet(nn.Module):
    """EfficientNet-B0 (M. Tan and Q. Le, 2019)."""

    STAGES = ((1, 16, 1, 1, 3), (6, 24, 2, 2, 3), (6, 40, 2, 2, 5), (6, 80, 3, 2, 3))
    STAGES += ((6, 112, 3, 1, 5), (6, 192, 4, 2, 5), (6, 320, 1, 1, 3))  # ..., size

    def __init__(self) -> None:
        super().__init__()
        layers, channels = [*_conv_norm(3, 32, 3, 2), nn.SiLU()], 32
        for factor, outputs, blocks, stride, size in self.STAGES:
            for block in range(blocks):
                layers.append(
                    _Inverted(channels, outputs, size, 1 if block else stride, factor, squeeze=True)
                )
                channels = outputs
        layers += [*_conv_norm(channels, 1280, 1), nn.SiLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten()]
        self.body, self.classify = nn.Sequential(*layers), nn.Linear(1280, 1000)

    def forward(self, x: Tensor) -> Tensor:
        return self.classify(self.body(x))


class _ConvNextBlock(nn.Module):
    def __init__(self, channels: int) -> None:
        super().__init__()
        self.spatial = nn.Conv2d(channels, channels, 7, padding=3, groups=channels)
        self.norm = nn.LayerNorm(channels, 1e-6)
        self.wide, self.narrow = (
            nn.Linear(channels, 4 * channels),
            nn.Linear(4 * channels, channels),
        )
        self.scale = nn.Parameter(torch.full((channels,), 0.1))

    def forward(self, x: Tensor) -> Tensor:
        h = self.norm(self.spatial(x).permute(0, 2, 3, 1))
        h = self.scale * self.narrow(nn.functional.gelu(self.wide(h)))
        return x + h.permute(0, 3, 1, 2)


class _ChannelNorm(nn.LayerNorm):
    """A layer norm over the channels of an NCHW tensor."""

    def forward(self, input: Tensor) -> Tensor:
        return super().forward(input.permute(0, 2, 3, 1)).permute(0, 3, 1, 2)


class ConvNext(nn.Module):
    """ConvNeXt-tiny (Z. Liu et al., 2022)."""

    def __init__(self) -> None:
        super().__init__()
        channels = (96, 192, 384, 768)
        layers: list[nn.Module] = [nn.Conv2d(3, 96, 4, 4), _ChannelNorm(96, 1e-6)]
        for stage, depth in enumerate((3, 3, 9, 3)):
            if stage:
                before, after = channels[stage - 1], channels[stage]
                layers += [_ChannelNorm(before, 1e-6), nn.Conv2d(before, after, 2, 2)]
            layers += [_ConvNextBlock(channels[stage]) for _ in range(depth)]
        self.body = nn.Sequential(*layers)
        self.norm, self.classify = nn.LayerNorm(768, 1e-6), nn.Linear(768, 1000)

    def forward(self, x: Tensor) -> Tensor:
        return self.classify(self.norm(self.body(x).mean((2, 3))))


def calibrated(module: nn.Module, *inputs: Tensor) -> nn.Module:
    """Returns the module for inference, its batch norms with the statistics of such inputs.

    With random weights and the statistics they start with, activations fade into denormals.
    """
    norms = [m for m in module.modules() if isinstance(m, nn.BatchNorm2d)]
    for norm in norms:
        norm.momentum = None  # the mean of all batches
        norm.reset_running_stats()
    if norms:
        module.train()
        with torch.no_grad():
            module(*(torch.randn_like(x.expand(4, *x.shape[1:])) for x in inputs))
    return module.eval()
