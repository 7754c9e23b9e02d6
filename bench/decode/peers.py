"""Who computes a token: one each per process, imported there only."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
from loopwright.decoding.llama import empty_cache

from examples.decoder import (
    GPT2,
    GPT2_SMALL,
    KINDS,
    narrowed,
    random_weights,
    widened,
)

from ..libraries import onnxruntime_session
from ..process import ROOT

__all__ = [
    "ANSWER",
    "OURS",
    "PEERS",
    "SIZES",
    "TOKEN",
    "Peer",
    "State",
    "answer_tokens",
    "expected",
]

Array = np.ndarray[Any, Any]

SIZES = GPT2_SMALL
TOKEN = 1234
ANSWER = 16
"""Tokens of a call where the loop over them is native, and of a sample of every peer."""


@cache
def weights() -> dict[str, Array]:
    """Returns random weights by name."""
    return random_weights(GPT2.shapes(SIZES))


def filled_cache(position: int) -> list[Array]:
    """Returns a cache with keys and values before a position, the same ones each time."""
    rng = np.random.default_rng(position)
    filled = empty_cache(SIZES)
    for layer in filled:
        part = layer[:, :, :position]
        part[:] = rng.standard_normal(part.shape, np.float32) / 2
    return filled


def expected(position: int, kind: str = "float32") -> Array:
    """Returns the scores after ``TOKEN`` at a position, computed by NumPy in float64 with the
    values of the weights of this kind."""
    wide = widened(narrowed(weights(), kind))
    layers: Any = [layer.astype(np.float64) for layer in filled_cache(position)]
    return GPT2(SIZES, wide)(np.array([TOKEN]), position, layers)


@dataclass(slots=True)
class State:
    """A call at one position, and how many tokens it computes (0: one, whose scores it returns);
    ``requests`` counts how often memory was asked for."""

    call: Callable[[], Any]
    tokens: int = 0
    requests: Callable[[], int] | None = None


@dataclass(frozen=True, slots=True)
class Peer:
    """``make(threads)`` gives a function from a position to a State; ``kind`` is that of the
    weights."""

    make: Callable[[int], Callable[[int], State]]
    kind: str = "float32"
    environment: Mapping[str, str] = field(default_factory=dict)


def answer_tokens(position: int) -> int:
    """Returns how many tokens of an answer that begins at a position fit into the context."""
    return min(ANSWER, SIZES.context - position)


def _ours(threads: int, answer: bool = False, kind: str = "float32") -> Callable[[int], State]:
    import loopwright as lw
    from loopwright.codegen.runtime.buffers import fresh_requests

    from examples.decoder import Answerer

    decoder = Answerer(GPT2(SIZES, narrowed(weights(), kind)), threads=threads)
    token, key = np.array([TOKEN]), lw.random.key(0)

    def at(position: int) -> State:
        layers = filled_cache(position)
        if not answer:
            return State(lambda: decoder.token(token, position, layers), 0, fresh_requests)
        scores = np.zeros(SIZES.words, np.float32)
        scores[TOKEN] = 1
        count = answer_tokens(position)

        def call() -> Array:
            return decoder.answer(scores, position, count, key, layers)

        return State(call, count, fresh_requests)

    return at


def _answer(threads: int) -> Callable[[int], State]:
    return _ours(threads, answer=True)


def _module() -> Any:
    import torch
    from torch import Tensor, nn
    from torch.nn import functional

    class Small(nn.Module):
        """GPT-2 with a cache that is written in place, or (``joined``) returned with one more."""

        def __init__(self) -> None:
            super().__init__()
            for name, array in weights().items():
                self.register_buffer(name.replace(".", "_"), torch.from_numpy(array))

        def of(self, name: str) -> Tensor:
            return getattr(self, name)

        def norm(self, name: str, x: Tensor) -> Tensor:
            gamma, beta = self.of(f"{name}_weight"), self.of(f"{name}_bias")
            return functional.layer_norm(x, (SIZES.width,), gamma, beta)

        def dense(self, name: str, x: Tensor) -> Tensor:
            return torch.addmm(self.of(f"{name}_bias"), x, self.of(f"{name}_weight"))

        def forward(
            self, token: Tensor, position: Any, layers: list[Tensor], joined: bool = False
        ) -> Any:
            x = self.of("wte_weight")[token] + self.of("wpe_weight")[position]
            present: list[Tensor] = []
            for number, old in enumerate(layers):
                name = f"h_{number}"
                qkv = self.dense(f"{name}_attn_c_attn", self.norm(f"{name}_ln_1", x))
                q, k, v = qkv.reshape(3, SIZES.heads, 1, SIZES.head)
                if joined:
                    both = torch.cat([old, torch.stack([k, v])], dim=2)
                    present.append(both)
                else:
                    old[0, :, position], old[1, :, position] = k[:, 0], v[:, 0]
                    both = old[:, :, : position + 1]
                found = functional.scaled_dot_product_attention(
                    q[None], both[0][None], both[1][None]
                )
                x = x + self.dense(f"{name}_attn_c_proj", found.reshape(1, SIZES.width))
                h = self.dense(f"{name}_mlp_c_fc", self.norm(f"{name}_ln_2", x))
                h = functional.gelu(h, approximate="tanh")
                x = x + self.dense(f"{name}_mlp_c_proj", h)
            scores = functional.linear(self.norm("ln_f", x), self.of("wte_weight"))[0]
            return (scores, *present) if joined else scores

    return Small().eval()


def _torch(threads: int, change: Callable[[Any], Any]) -> Callable[[int], State]:
    import torch

    torch.set_num_threads(threads)
    torch.set_grad_enabled(False)
    module = change(_module())
    token = torch.tensor([TOKEN])

    def at(position: int) -> State:
        layers = [torch.from_numpy(layer) for layer in filled_cache(position)]
        return State(lambda: module(token, position, layers))

    return at


def _eager(threads: int) -> Callable[[int], State]:
    return _torch(threads, lambda module: module)


def _inductor(threads: int) -> Callable[[int], State]:
    import torch
    import torch._inductor.config

    torch._inductor.config.freezing = True  # weights become constants of the code
    torch._inductor.config.compile_threads = 1
    return _torch(threads, lambda module: torch.compile(module, dynamic=True))


def exported(folder: Path = ROOT / "build" / "decode") -> Path:
    """Returns the ONNX file of one token with a cache; it is written if there is none yet."""
    path = folder / "gpt2-token.onnx"
    if path.exists():
        return path
    import torch

    folder.mkdir(parents=True, exist_ok=True)
    part = path.with_suffix(f".{os.getpid()}.onnx")
    shape = (2, SIZES.heads, 7, SIZES.head)
    layers = [torch.zeros(shape) for _ in range(SIZES.layers)]
    length = torch.export.Dim("length", max=SIZES.context - 1)
    names = [str(n) for n in range(SIZES.layers)]
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.onnx.export(
            _module(),
            (torch.tensor([TOKEN]), torch.tensor([7]), layers, True),
            part,
            input_names=["token", "position", *(f"past_{n}" for n in names)],
            output_names=["scores", *(f"present_{n}" for n in names)],
            dynamic_shapes=(None, None, [{2: length}] * SIZES.layers, None),
            dynamo=True,
            external_data=False,
            verbose=False,
        )
    os.replace(part, path)
    return path


def _onnxruntime(threads: int) -> Callable[[int], State]:
    import onnxruntime

    session = onnxruntime_session(str(exported()), threads)

    def at(position: int) -> State:
        binding = session.io_binding()
        binding.bind_cpu_input("token", np.array([TOKEN]))
        binding.bind_cpu_input("position", np.array([position]))
        scores = onnxruntime.OrtValue.ortvalue_from_numpy(np.zeros(SIZES.words, np.float32))
        binding.bind_ortvalue_output("scores", scores)
        for n, layer in enumerate(filled_cache(position)):
            past = np.ascontiguousarray(layer[:, :, :position])
            binding.bind_cpu_input(f"past_{n}", past)
            present = np.zeros((2, SIZES.heads, position + 1, SIZES.head), np.float32)
            value = onnxruntime.OrtValue.ortvalue_from_numpy(present)
            binding.bind_ortvalue_output(f"present_{n}", value)

        def call() -> Any:
            session.run_with_iobinding(binding)
            return scores

        return State(call)

    return at


_UNTUNED = {"LOOPWRIGHT_LOG": os.devnull}

PEERS: dict[str, Peer] = {
    "ours": Peer(_ours, environment=_UNTUNED),
    "ours-loop": Peer(_answer, environment=_UNTUNED),
    **{
        f"ours-{kind}": Peer(partial(_ours, kind=kind), kind, _UNTUNED)
        for kind in KINDS
        if kind != "float32"
    },
    "eager": Peer(_eager),
    "inductor": Peer(_inductor),
    "onnxruntime": Peer(_onnxruntime),
}

OURS = tuple(name for name in PEERS if name.startswith("ours"))
"""The peers that are us: a call for each token, one for an answer of ``ANSWER`` tokens, and calls
with narrower weights."""
