"""What trains a model: one each per process, imported there only."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from .models import Model

__all__ = ["OURS", "PEERS", "Parts", "Peer"]

RATE = np.float32(0.002)
"""The learning rate of all: plain descent."""

Call = Callable[[], Any]

Parts = dict[str, Call]
"""Calls by name, each of which returns the loss: a whole ``step``, which goes on from the last one;
the ``gradient`` without the update; the ``forward`` part."""


@dataclass(frozen=True, slots=True)
class Peer:
    """``make(model, threads)`` gives the parts; ``environment`` is that of its process."""

    make: Callable[[Model, int], Parts]
    environment: Mapping[str, str] = field(default_factory=dict)


def _functional(m: Any, model: Model, over: Any, jit: Any, value_and_grad: Any, done: Any) -> Parts:
    """The parts of a library whose gradients are functions: ``over`` maps over trees."""

    def loss(params: Any, *data: Any) -> Any:
        return model.loss(m, params, *data)

    def step(params: Any, *data: Any) -> Any:
        value, grads = value_and_grad(loss)(params, *data)
        return value, over(lambda p, g: p - RATE * g, params, grads)

    forward, gradient, whole = jit(loss), jit(value_and_grad(loss)), jit(step)
    state = [model.params]

    def trained() -> Any:
        value, state[0] = done(whole(state[0], *model.data))
        return value

    return {
        "step": trained,
        "gradient": lambda: done(gradient(model.params, *model.data))[0],
        "forward": lambda: done(forward(model.params, *model.data)),
    }


def _ours(model: Model, threads: int) -> Parts:
    import loopwright as lw

    from .namespaces import Ours

    def same(result: Any) -> Any:
        return result

    return _functional(Ours(), model, lw.optim.over, lw.compile, lw.value_and_grad, same)


def _jax(model: Model, threads: int) -> Parts:
    # XLA's own settings do not hold it to fewer threads than there are cores; the kernel does.
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:threads])
    import jax  # type: ignore[import-not-found]

    from .namespaces import Jax

    put = jax.tree.map(jax.numpy.asarray, (model.params, model.data))
    model = Model(model.loss, *put)
    return _functional(
        Jax(), model, jax.tree.map, jax.jit, jax.value_and_grad, jax.block_until_ready
    )


def _torch(recurrence: str = "", **options: Any) -> Callable[[Model, int], Parts]:
    """Returns what trains by torch: eagerly, or with the ``options`` of ``torch.compile``, which
    takes PyTorch's LSTM out of what is compiled, so that they have the steps one by one."""

    def make(model: Model, threads: int) -> Parts:
        import torch
        import torch._inductor.config
        import torch.utils._pytree as pytree

        from .namespaces import Torch

        torch.set_num_threads(threads)
        torch._inductor.config.compile_threads = 1
        m, data = Torch(recurrence), [torch.from_numpy(array) for array in model.data]
        params = pytree.tree_map(lambda p: torch.nn.Parameter(torch.tensor(p)), model.params)
        leaves = pytree.tree_leaves(params)

        def loss(params: Any, *data: Any) -> Any:
            return model.loss(m, params, *data)

        run = torch.compile(loss, **options) if options else loss

        def gradient() -> Any:
            value = run(params, *data)
            return value.detach(), torch.autograd.grad(value, leaves)

        def step() -> Any:
            value, grads = gradient()
            with torch.no_grad():
                torch._foreach_add_(leaves, grads, alpha=-float(RATE))
            return value

        def forward() -> Any:
            with torch.no_grad():
                return run(params, *data)

        return {"step": step, "gradient": lambda: gradient()[0], "forward": forward}

    return make


PEERS: dict[str, Peer] = {
    "ours": Peer(_ours, {"LOOPWRIGHT_LOG": os.devnull}),
    "backend": Peer(_torch("scan", backend="loopwright"), {"LOOPWRIGHT_LOG": os.devnull}),
    "eager": Peer(_torch()),
    "inductor": Peer(_torch("loop", dynamic=False), {"TORCHINDUCTOR_FORCE_DISABLE_CACHES": "1"}),
    "jax": Peer(_jax, {"JAX_PLATFORMS": "cpu"}),
}

OURS = ("ours", "backend")
"""The peers that are us: ``lw.value_and_grad``, and as a backend of ``torch.compile``."""
