"""Networks of images, as torch modules with random weights."""

from __future__ import annotations

import torch
from torch import Tensor, nn

__all__ = [
    "ConvNext",
    "DenseNet",
    "EfficientNet",
    "MobileNetV2",
    "MobileNetV3",
    "ResNet",
    "UNet",
    "calibrated",
]


def _conv_norm(
    inputs: int, outputs: int, size: int, stride: int = 1, groups: int = 1
) -> list[nn.Module]:
    conv = nn.Conv2d(inputs, outputs, size, stride, size // 2, groups=groups, bias=False)
    return [conv, nn.BatchNorm2d(outputs)]


class _Residual(nn.Module):
    """A ResNet block: two 3x3 convolutions, or a bottleneck of 1x1, 3x3 and 1x1."""

    def __init__(
        self, inputs: int, width: int, stride: int, bottleneck: bool, groups: int = 1
    ) -> None:
        super().__init__()
        outputs = 4 * width if bottleneck else width
        if bottleneck:
            inner = 2 * width if groups > 1 else width
            body = [*_conv_norm(inputs, inner, 1), nn.ReLU()]
            body += [*_conv_norm(inner, inner, 3, stride, groups), nn.ReLU()]
            body += _conv_norm(inner, outputs, 1)
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
    """K. He et al., 2016, with the stride in the 3x3 convolution of a bottleneck; ResNeXt (S. Xie
    et al., 2017) with more than one of its ``groups``."""

    def __init__(
        self,
        depths: tuple[int, ...],
        bottleneck: bool,
        width: int = 64,
        classes: int = 1000,
        groups: int = 1,
    ) -> None:
        super().__init__()
        layers = [*_conv_norm(3, width, 7, 2), nn.ReLU(), nn.MaxPool2d(3, 2, 1)]
        channels = width
        for stage, depth in enumerate(depths):
            for block in range(depth):
                stride = 2 if stage and not block else 1
                layers.append(_Residual(channels, width << stage, stride, bottleneck, groups))
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


class _Mobile(nn.Module):
    """A block of MobileNetV3: an inverted residual with a narrow excitation of piecewise lines."""

    def __init__(
        self,
        inputs: int,
        size: int,
        wide: int,
        outputs: int,
        squeeze: bool,
        hard: bool,
        stride: int,
    ) -> None:
        super().__init__()
        activation = nn.Hardswish if hard else nn.ReLU
        body = [*_conv_norm(inputs, wide, 1), activation()] if wide != inputs else []
        body += [*_conv_norm(wide, wide, size, stride, wide), activation()]
        self.squeeze = None
        if squeeze:
            narrow = max(8, round(wide / 32) * 8)
            self.squeeze = nn.Sequential(
                nn.AdaptiveAvgPool2d(1), nn.Conv2d(wide, narrow, 1), nn.ReLU(),
                nn.Conv2d(narrow, wide, 1), nn.Hardsigmoid(),
            )  # fmt: skip
        self.body, self.narrow = nn.Sequential(*body), nn.Sequential(*_conv_norm(wide, outputs, 1))
        self.adds = stride == 1 and inputs == outputs

    def forward(self, x: Tensor) -> Tensor:
        h = self.body(x)
        h = h if self.squeeze is None else h * self.squeeze(h)
        h = self.narrow(h)
        return x + h if self.adds else h


class MobileNetV3(nn.Module):
    """The large one of A. Howard et al., 2019."""

    BLOCKS = ((3, 16, 16, 0, 0, 1), (3, 64, 24, 0, 0, 2), (3, 72, 24, 0, 0, 1))
    BLOCKS += ((5, 72, 40, 1, 0, 2), (5, 120, 40, 1, 0, 1), (5, 120, 40, 1, 0, 1))
    BLOCKS += ((3, 240, 80, 0, 1, 2), (3, 200, 80, 0, 1, 1), (3, 184, 80, 0, 1, 1))
    BLOCKS += ((3, 184, 80, 0, 1, 1), (3, 480, 112, 1, 1, 1), (3, 672, 112, 1, 1, 1))
    BLOCKS += ((5, 672, 160, 1, 1, 2), (5, 960, 160, 1, 1, 1), (5, 960, 160, 1, 1, 1))
    # size, wide, outputs, squeezes, hard swish, stride

    def __init__(self) -> None:
        super().__init__()
        layers, channels = [*_conv_norm(3, 16, 3, 2), nn.Hardswish()], 16
        for size, wide, outputs, squeeze, hard, stride in self.BLOCKS:
            layers.append(_Mobile(channels, size, wide, outputs, bool(squeeze), bool(hard), stride))
            channels = outputs
        layers += [*_conv_norm(channels, 960, 1), nn.Hardswish()]
        layers += [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(960, 1280), nn.Hardswish()]
        self.body, self.classify = nn.Sequential(*layers), nn.Linear(1280, 1000)

    def forward(self, x: Tensor) -> Tensor:
        return self.classify(self.body(x))


class _Dense(nn.Module):
    """Norm, relu and convolution, twice; the result joins the channels that came in."""

    def __init__(self, inputs: int, growth: int) -> None:
        super().__init__()
        self.body = nn.Sequential(
            nn.BatchNorm2d(inputs), nn.ReLU(), *_conv_norm(inputs, 4 * growth, 1), nn.ReLU(),
            nn.Conv2d(4 * growth, growth, 3, padding=1, bias=False),
        )  # fmt: skip

    def forward(self, x: Tensor) -> Tensor:
        return torch.cat([x, self.body(x)], 1)


class DenseNet(nn.Module):
    """DenseNet-121 (G. Huang et al., 2017)."""

    def __init__(self, growth: int = 32) -> None:
        super().__init__()
        layers, channels = [*_conv_norm(3, 64, 7, 2), nn.ReLU(), nn.MaxPool2d(3, 2, 1)], 64
        for stage, depth in enumerate((6, 12, 24, 16)):
            if stage:
                layers += [nn.BatchNorm2d(channels), nn.ReLU()]
                layers += [nn.Conv2d(channels, channels // 2, 1, bias=False), nn.AvgPool2d(2)]
                channels //= 2
            layers += [_Dense(channels + growth * i, growth) for i in range(depth)]
            channels += growth * depth
        layers += [nn.BatchNorm2d(channels), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten()]
        self.body, self.classify = nn.Sequential(*layers), nn.Linear(channels, 1000)

    def forward(self, x: Tensor) -> Tensor:
        return self.classify(self.body(x))


class UNet(nn.Module):
    """O. Ronneberger et al., 2015, with batch norms, padding, and half of the channels."""

    def __init__(self, width: int = 32, depth: int = 4, classes: int = 2) -> None:
        super().__init__()
        sizes = [width << level for level in range(depth + 1)]
        self.down = nn.ModuleList(
            self._pair(before, after) for before, after in zip([3, *sizes], sizes)
        )
        self.up = nn.ModuleList(
            nn.ConvTranspose2d(2 * size, size, 2, 2) for size in reversed(sizes[:-1])
        )
        self.join = nn.ModuleList(self._pair(2 * size, size) for size in reversed(sizes[:-1]))
        self.classify = nn.Conv2d(width, classes, 1)

    @staticmethod
    def _pair(inputs: int, outputs: int) -> nn.Module:
        first = [*_conv_norm(inputs, outputs, 3), nn.ReLU()]
        return nn.Sequential(*first, *_conv_norm(outputs, outputs, 3), nn.ReLU())

    def forward(self, x: Tensor) -> Tensor:
        levels = [x := self.down[0](x)]
        for pair in list(self.down)[1:]:
            levels.append(x := pair(nn.functional.max_pool2d(x, 2)))
        for up, join, level in zip(self.up, self.join, reversed(levels[:-1])):
            x = join(torch.cat([level, up(x)], 1))
        return self.classify(x)


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
