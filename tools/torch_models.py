"""Counts which architectures of transformers and timm run right through ``torch.compile``.

::

    python -m tools.torch_models transformers [NAME ...] [--every 10] [--seconds 180]
    python -m tools.torch_models timm [NAME ...] [--every 10]

Each architecture gets a process of its own, random weights and sizes as small as its configuration
lets them be. One line each says what became of it: compiled ``whole``, in ``parts`` around what
PyTorch runs, in ``eager`` mode altogether, with ``wrong`` numbers, an ``error`` that eager mode
does not have, or past its ``time``. What eager mode does not run here is ``untried``.
Exits with 1 if a result is wrong. It needs ``transformers`` or ``timm`` beside PyTorch.
"""

from __future__ import annotations

import argparse
import inspect
import json
import logging
import subprocess
import sys
import warnings
from collections import Counter
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch

SMALL = {
    "hidden_size": 32,
    "d_model": 32,
    "n_embd": 32,
    "embed_dim": 32,
    "dim": 32,
    "embedding_size": 32,
    "word_embed_proj_dim": 32,
    "intermediate_size": 64,
    "ffn_dim": 64,
    "d_ff": 64,
    "encoder_ffn_dim": 64,
    "decoder_ffn_dim": 64,
    "moe_intermediate_size": 32,
    "num_hidden_layers": 2,
    "num_layers": 2,
    "n_layer": 2,
    "n_layers": 2,
    "encoder_layers": 2,
    "decoder_layers": 2,
    "num_decoder_layers": 2,
    "num_attention_heads": 4,
    "num_heads": 4,
    "n_head": 4,
    "n_heads": 4,
    "encoder_attention_heads": 4,
    "decoder_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 8,
    "d_kv": 8,
    "vocab_size": 128,
    "max_position_embeddings": 64,
    "num_experts": 4,
    "num_local_experts": 4,
    "n_routed_experts": 4,
    "num_experts_per_tok": 2,
    "n_group": 1,
    "topk_group": 1,
    "image_size": 32,
    "patch_size": 8,
}
"""Attributes of configurations, and the sizes that they get where they are greater."""

TOLERANCE = 2e-3
"""The difference to eager mode over the greatest element, from which on a result is wrong: layers
of norms multiply what float32 rounds."""

LENGTH = 8
"""Tokens of an input."""

TRIED_WEIGHTS = 450_000_000
"""Weights of a model, above which it is not tried."""


def small_config(kind: type[Any], sizes: Mapping[str, int]) -> Any:
    """Returns a configuration of class ``kind`` with these sizes, and so of what it holds."""
    usual = kind()
    given: dict[str, Any] = {}
    for name, size in sizes.items():
        value = getattr(usual, name, None)
        if type(value) is int and value > size:
            given[name] = size
    for name, held in getattr(kind, "sub_configs", {}).items():
        if hasattr(usual, name) and getattr(usual, name) is not None:
            inner = type(getattr(usual, name))
            inner = inner if hasattr(inner, "model_type") else held
            given[name] = small_config(inner, sizes).to_dict()
    kinds = {name: getattr(usual, name, None) for name in ("layer_types", "mlp_layer_types")}
    lists = {name: value for name, value in kinds.items() if isinstance(value, list) and value}
    if lists and "num_hidden_layers" in given:  # a layer of each kind
        count = max(given["num_hidden_layers"], *(len(set(value)) for value in lists.values()))
        given["num_hidden_layers"] = count
        for name, value in lists.items():
            given[name] = [*dict.fromkeys(value), *value][:count]
    for name in ("pad_token_id", "bos_token_id", "eos_token_id"):
        value = getattr(usual, name, None)
        if type(value) is int and value >= given.get("vocab_size", value + 1):
            given[name] = 1
    return kind(**given)


def _first(config: Any, *names: str, default: int) -> int:
    """Returns the first of the attributes that a configuration, or what it holds, has."""
    holders = [
        config,
        *(getattr(config, name, None) for name in getattr(config, "sub_configs", {})),
    ]
    for holder in holders:
        for name in names:
            value = getattr(holder, name, None)
            if isinstance(value, list | tuple):
                return int(value[0])
            if type(value) is int:
                return value
    return default


def _inputs(model: Any) -> dict[str, Any]:
    """Returns arguments for the forward method of a model of transformers."""
    config, generator = model.config, torch.Generator().manual_seed(0)
    names = inspect.signature(model.forward).parameters
    words = _first(config, "vocab_size", default=100)
    tokens = torch.randint(2, max(words - 1, 3), (1, LENGTH), generator=generator)
    given: dict[str, Any] = {}
    if "input_ids" in names:
        given["input_ids"] = tokens
    if "decoder_input_ids" in names and getattr(config, "is_encoder_decoder", False):
        given["decoder_input_ids"] = tokens
    if "pixel_values" in names:
        side = _first(config, "image_size", "img_size", default=64)
        channels = _first(config, "num_channels", "in_channels", default=3)
        given["pixel_values"] = torch.randn((1, channels, side, side), generator=generator)
    if "input_features" in names:
        bins = _first(config, "num_mel_bins", "feature_size", default=80)
        length = 2 * _first(config, "max_source_positions", default=64)
        given["input_features"] = torch.randn((1, bins, length), generator=generator)
    if "input_values" in names:
        bins = _first(config, "num_mel_bins", default=0)
        shape = (1, _first(config, "max_length", default=64), bins) if bins else (1, 4000)
        given["input_values"] = torch.randn(shape, generator=generator)
    if "query_embeds" in names:
        width = _first(config, "hidden_size", default=32)
        given["query_embeds"] = torch.randn((1, LENGTH, width), generator=generator)
    return given


def _transformers(name: str) -> tuple[Any, dict[str, Any]]:
    from transformers import AutoModel  # loaded when it is first needed
    from transformers.models.auto.configuration_auto import CONFIG_MAPPING

    few = {name: size for name, size in SMALL.items() if "layer" in name or "vocab" in name}
    failure: Exception = RuntimeError("no sizes")
    for sizes in (SMALL, few):  # widths that depend on each other are left as they are
        try:
            config = small_config(CONFIG_MAPPING[name], sizes)
            with torch.device("meta"):
                elements = sum(p.numel() for p in AutoModel.from_config(config).parameters())
            if elements > TRIED_WEIGHTS:
                raise RuntimeError(f"{elements} elements of weights")
            model = AutoModel.from_config(config)
            given = _inputs(model)
            with torch.no_grad():
                model.eval()(**given)
            return model, given
        except Exception as error:  # whatever a combination of sizes runs into
            failure = error
    raise failure


def _timm(name: str) -> tuple[Any, dict[str, Any]]:
    import timm  # loaded when it is first needed

    model = timm.create_model(name)
    _, side, _ = model.default_cfg["input_size"]
    if not model.default_cfg.get("fixed_input_size"):
        side = max(32 * (side // 64), model.default_cfg.get("min_input_size", (3, 64, 64))[1])
    x = torch.randn((1, 3, side, side), generator=torch.Generator().manual_seed(0))
    return model, {next(iter(inspect.signature(model.forward).parameters)): x}


def _names(library: str) -> list[str]:
    """Returns a name for each architecture of a library."""
    if library == "transformers":
        from transformers.models.auto.modeling_auto import MODEL_MAPPING_NAMES

        return sorted(MODEL_MAPPING_NAMES)
    import timm  # loaded when it is first needed

    return [min(timm.list_models(module=each), key=len) for each in sorted(timm.list_modules())]


def _flat(result: Any) -> list[np.ndarray]:
    leaves = torch.utils._pytree.tree_leaves(result)
    return [each.detach().double().numpy() for each in leaves if isinstance(each, torch.Tensor)]


class _Lines(logging.Handler):
    """Keeps what the compiler logs."""

    def __init__(self) -> None:
        super().__init__()
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(record.getMessage())


def outcome(library: str, name: str) -> tuple[str, str]:
    """Returns what became of an architecture, and a word on it."""
    torch.manual_seed(0)
    try:
        model, given = (_transformers if library == "transformers" else _timm)(name)
        model = model.eval()
        with torch.no_grad():
            for parameter in model.parameters():  # a router of zeros would choose among equals
                if parameter.is_floating_point():
                    parameter.add_(torch.randn_like(parameter), alpha=0.02)
            expected = _flat(model(**given))
    except Exception as error:  # whatever eager mode does not run
        return "untried", f"{type(error).__name__}: {error}"
    lines = _Lines()
    logging.getLogger("loopwright").addHandler(lines)
    try:
        with torch.no_grad():
            results = _flat(torch.compile(model, backend="loopwright")(**given))
    except Exception as error:
        return "error", f"{type(error).__name__}: {error}"
    if len(results) != len(expected):
        return "wrong", f"{len(results)} tensors, not {len(expected)}"
    for x, y in zip(results, expected, strict=True):
        if x.shape != y.shape or np.isnan(x).any() != np.isnan(y).any():
            return "wrong", f"{x.shape} and {y.shape}, or nan"
        if x.size and np.nanmax(np.abs(x - y)) > TOLERANCE * max(np.nanmax(np.abs(y)), 1e-3):
            return "wrong", f"a difference of {np.nanmax(np.abs(x - y)):.2g}"
    said = " ".join(" ".join(lines.lines).split())
    if not lines.lines:
        return "whole", ""
    return ("parts" if "parts: " in said else "eager"), said


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("library", choices=("transformers", "timm"))
    parser.add_argument("names", nargs="*")
    parser.add_argument("--every", type=int, default=1, help="try one of so many")
    parser.add_argument("--seconds", type=float, default=180, help="for each of them")
    parser.add_argument("--alone", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.alone:
        warnings.simplefilter("ignore")
        print(json.dumps(outcome(options.library, options.names[0])))
        return 0
    counts = Counter[str]()
    for name in options.names or _names(options.library)[:: options.every]:
        command = [sys.executable, "-m", "tools.torch_models", options.library, name, "--alone"]
        try:
            run = subprocess.run(command, capture_output=True, text=True, timeout=options.seconds)
            last = run.stdout.splitlines()[-1] if run.stdout else "null"
            kind, why = json.loads(last) or ("error", f"exit code {run.returncode}")
        except subprocess.TimeoutExpired:
            kind, why = "time", f"more than {options.seconds:g} s"
        counts[kind] += 1
        print(f"{name:32} {kind:8} {' '.join(why.split())[:160]}", flush=True)
    print(", ".join(f"{count} {kind}" for kind, count in counts.most_common()))
    return int(counts["wrong"] > 0)


if __name__ == "__main__":
    sys.exit(main())
