"""Models of transformers and timm by the names of their architectures: random weights, sizes as
small as a configuration lets them be, and arguments of a call."""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping
from typing import Any

import torch

_SIZES = {
    128: "vocab_size vocab_size_per_layer_input max_position_embeddings n_positions",
    64: "intermediate_size ffn_dim d_ff encoder_ffn_dim decoder_ffn_dim",
    32: (
        "hidden_size d_model n_embd embed_dim dim embedding_size word_embed_proj_dim "
        "moe_intermediate_size codebook_dim image_size"
    ),
    8: "head_dim d_kv mamba_n_heads num_queries patch_size",
    4: (
        "num_attention_heads num_heads n_head n_heads encoder_attention_heads "
        "decoder_attention_heads num_experts num_local_experts n_routed_experts"
    ),
    2: (
        "num_hidden_layers num_layers n_layer n_layers encoder_layers decoder_layers "
        "num_decoder_layers num_key_value_heads num_experts_per_tok"
    ),
    1: "n_group topk_group n_shared_experts pad_token_id",
    0: "num_kv_shared_layers",
}
SMALL = {name: size for size, names in _SIZES.items() for name in names.split()}
"""Attributes of configurations, and the sizes that they get where they are greater."""

LENGTH = 8
"""Tokens of an input."""

TRIED_WEIGHTS = 250_000_000
"""Weights of a model, above which it is not tried."""


def small_config(usual: Any, sizes: Mapping[str, int], opened: bool = False) -> Any:
    """Returns a configuration like ``usual`` with these sizes, and so of what it holds; sizes that
    it leaves open are given as well where ``opened``."""
    kind = type(usual)
    plain, here = kind().to_dict(), usual.to_dict()
    inner = [name for name in getattr(kind, "sub_configs", {}) if name in here]
    given: dict[str, Any] = {
        name: value
        for name, value in here.items()
        if value != plain.get(name) and name not in inner and name not in _ABOUT
    }
    for name, size in sizes.items():
        value = _value(usual, name)
        if (type(value) is int and value > size) or (value is None and name in here and opened):
            given[name] = size
    for name in inner:
        if hasattr(type(getattr(usual, name)), "model_type"):
            given[name] = small_config(getattr(usual, name), sizes, opened)
    depth = next((name for name in DEPTHS if name in given), "")
    layers = _value(usual, depth)
    if layers is not None:  # a layer of each kind
        lists = {
            name: value
            for name, value in here.items()
            if isinstance(value, list) and len(value) == layers and not _is_computed(kind, name)
        }
        kinds = [len({str(each) for each in value}) for value in lists.values()]
        count = max(given[depth], *(kind for kind in kinds if kind < 5), 0)
        given[depth] = count
        for name, value in lists.items():
            first = {str(each): each for each in reversed(value)}.values()
            given[name] = [*reversed(first), *value][:count] if len(first) < 5 else value[:count]
    for name in ("pad_token_id", "bos_token_id", "eos_token_id"):
        value = getattr(usual, name, None)
        if type(value) is int and value >= given.get("vocab_size", value + 1):
            given[name] = 1
    rope = here.get("rope_parameters") or {}
    if "head_dim" in sizes and "mrope_section" in getattr(
        kind, "ignore_keys_at_rope_validation", ()
    ):
        width = _value(usual, "qk_rope_head_dim") or sizes["head_dim"]
        sections = [width // 2 - 2 * (width // 8), width // 8, width // 8]
        given["rope_parameters"] = rope | {"mrope_section": sections}
    given |= REQUIRED.get(kind.model_type, {})
    return kind(**given)


_SERIES = {"prediction_length": 4, "context_length": 16, "num_time_features": 1}
REQUIRED: dict[str, dict[str, Any]] = {
    "autoformer": _SERIES,
    "informer": _SERIES,
    "time_series_transformer": _SERIES,
    "chameleon": {"vocabulary_map": {}},
    "emu3": {"vocabulary_map": {"<image>": 5}},
}
"""Attributes that a configuration needs besides."""

_ABOUT = ("model_type", "transformers_version", "architectures", "_name_or_path")
DEPTHS = ("num_hidden_layers", "num_layers", "n_layer", "n_layers")
"""Attributes that say how many layers there are, and how long lists are that say something of
each."""


def _value(config: Any, name: str) -> Any:
    """Returns an attribute, None where there is none, or another one for each layer."""
    try:
        return getattr(config, name, None)
    except Exception:
        return None


def _is_computed(kind: type[Any], name: str) -> bool:
    name = getattr(kind, "attribute_map", {}).get(name, name)
    return isinstance(getattr(kind, name, None), property)


def _first(config: Any, *names: str, default: int) -> int:
    """Returns the first of the attributes that a configuration, or what it holds, has."""
    holders = [
        config,
        *(getattr(config, name, None) for name in getattr(config, "sub_configs", {})),
    ]
    for holder in holders:
        for name in names:
            value = _value(holder, name)
            if isinstance(value, list | tuple):
                return int(value[0])
            if type(value) is int:
                return value
    return default


def _inputs(model: Any) -> dict[str, Any]:
    """Returns arguments for the forward method of a model of transformers."""
    config, generator = model.config, torch.Generator().manual_seed(0)
    names = inspect.signature(model.forward).parameters
    needed = {
        n for n, p in names.items() if p.default is p.empty and p.kind is p.POSITIONAL_OR_KEYWORD
    }
    words = _first(config, "vocab_size", default=100)
    tokens = torch.randint(2, max(words - 1, 3), (1, LENGTH), generator=generator)
    width = _first(config, "hidden_size", "d_model", default=32)
    side = _first(config, "image_size", "img_size", default=64)
    channels = _first(config, "num_channels", "in_channels", "in_chans", default=3)

    def noise(*shape: int) -> torch.Tensor:
        return torch.randn(shape, generator=generator)

    given: dict[str, Any] = {}
    if "input_ids" in names:
        given["input_ids"] = tokens
    if "bbox" in names:
        given["bbox"] = torch.zeros((1, LENGTH, 4), dtype=torch.int64)
    if "decoder_input_ids" in names and getattr(config, "is_encoder_decoder", False):
        given["decoder_input_ids"] = tokens
    for name in needed - {"input_ids"}:  # of a task, a question or a prompt
        if name.endswith(("input_ids", "task_inputs")):
            given[name] = tokens
    grids = {"grid_thw", "image_grid_thw"} & needed
    if grids:  # patches of one image, as rows
        patch = _first(config, "patch_size", default=14)
        times = _first(config, "temporal_patch_size", default=1)
        rows = noise(64, channels * times * patch**2)
        first = next(n for n in ("hidden_states", "pixel_values", "x") if n in names)
        given |= {first: rows, **dict.fromkeys(grids, torch.tensor([[1, 8, 8]]))}
        given |= dict.fromkeys({"merge_sizes"} & needed, torch.tensor([1]))
    elif "spatial_shapes" in names:  # patches with a mask
        patch = _first(config, "patch_size", default=14)
        given["pixel_values"] = noise(1, 64, channels * patch**2)
        given["spatial_shapes"] = torch.tensor([[8, 8]])
        given["pixel_attention_mask"] = torch.ones((1, 64), dtype=torch.int64)
    elif "pixel_values" in names:
        sides = _value(config, "image_size")
        shape = sides if isinstance(sides, list | tuple) and len(sides) == 2 else (side, side)
        given["pixel_values"] = noise(1, channels, *shape)
        for name in needed & {"prompt_pixel_values", "prompt_masks"}:
            given[name] = noise(1, channels, *shape)
    if "pixel_values_videos" in names and "pixel_values" not in names:
        frames = _first(config, "num_frames", "frames_per_clip", default=2)
        given["pixel_values_videos"] = noise(1, frames, channels, side, side)
    if "input_features" in names:
        bins = _first(config, *_BINS, default=80)
        length = 2 * _first(config, "max_source_positions", default=64)
        given["input_features"] = noise(1, bins, length)
        for mask in ("input_features_mask", "feature_attention_mask"):
            if mask in names:
                given[mask] = torch.ones((1, length), dtype=torch.int64)
    if "input_values" in names:
        bins = _first(config, "num_mel_bins", default=0)
        shape = (1, _first(config, "max_length", default=64), bins) if bins else (1, 4000)
        given["input_values"] = noise(*shape)
    if "query_embeds" in names:
        given["query_embeds"] = noise(1, LENGTH, width)
        given["encoder_hidden_states"] = noise(
            1, LENGTH, _first(config, "encoder_hidden_size", default=width)
        )
    if "past_values" in names:
        length = _first(config, "context_length", default=32)
        channels = _first(config, "num_input_channels", "input_size", default=1)
        given["past_values"] = noise(1, length, channels)
    if "past_time_features" in names:
        past, future = length + max(config.lags_sequence), config.prediction_length
        given |= {"past_values": noise(1, past), "past_observed_mask": torch.ones((1, past))}
        given |= {"past_time_features": noise(1, past, 1), "future_values": noise(1, future)}
        given["future_time_features"] = noise(1, future, 1)
    for name in needed & {"encoder_hidden_states", "hidden_states", "inputs_embeds"} - given.keys():
        given[name] = noise(1, LENGTH, _first(config, "encoder_hidden_size", default=width))
    return given


_BINS = ("num_mel_bins", "feature_size", "n_mels", "feature_projection_input_dim", "input_dim")
"""Attributes that say how many numbers stand for a moment of sound."""


def _other_axes(config: Any, given: Mapping[str, Any]) -> dict[str, Any]:
    """Returns arguments with the axes that other models want: sounds with a channel, and of whole
    frames, images in videos, moments before their numbers, and patches of two images."""
    made = dict(given)
    for name in {"input_values", "pixel_values", "input_features"} & given.keys():
        x = given[name]
        if name == "input_features":
            made[name] = x.mT.contiguous()
        elif name == "input_values":
            made[name] = x[:, None, :3840]
        elif x.dim() == 4:
            frames = _first(config, "num_frames", "frames_per_clip", default=2)
            made[name] = x[:, None].repeat(1, frames, 1, 1, 1)
        elif x.dim() == 2:
            made[name] = x.repeat(1, 2)
    return made


def transformer(name: str, writes: bool) -> tuple[Any, dict[str, Any]]:
    """Returns a small model of transformers, with a head that predicts tokens if it ``writes``,
    and arguments of a call.

    Raises ExceptionGroup of what went wrong with each combination of sizes.
    """
    import transformers  # loaded when it is first needed
    from transformers.models.auto.configuration_auto import CONFIG_MAPPING

    kind: Any = transformers.AutoModel
    if writes:
        kind = transformers.AutoModelForCausalLM
    failures: list[Exception] = []
    for sizes in _sizes():  # until a model runs
        try:
            config = small_config(CONFIG_MAPPING[name](), *sizes)
            with torch.device("meta"):
                elements = sum(p.numel() for p in kind.from_config(config).parameters())
            if elements > TRIED_WEIGHTS:
                raise RuntimeError(f"{elements} elements of weights")
            model = kind.from_config(config).eval()
        except Exception as error:  # whatever a combination of sizes runs into
            failures.append(error)
            continue
        given = _inputs(model)
        other = _other_axes(config, given)
        for left in ((), PICTURES, PICTURES, None):  # models with eyes also read text alone
            if left is None:
                given, left = other, ()
            if left and left[0] not in given and "input_ids" in given:
                given["use_cache"] = False  # a cache needs a layer of attention
            given = {name: value for name, value in given.items() if name not in left}
            try:
                with torch.no_grad():
                    model(**given)
                return model, given
            except Exception as error:
                failures.append(error)
    raise ExceptionGroup(" | ".join(map(str, failures)), failures)


def _sizes() -> Iterator[tuple[Mapping[str, int], bool]]:
    """Yields sizes of configurations, and whether those are given that a configuration leaves
    open; the first that a model can be made with are taken."""
    yield SMALL, False
    heads = SMALL | {"num_key_value_heads": SMALL["num_attention_heads"]}
    yield heads, False
    yield heads, True
    del heads["head_dim"]
    yield heads, False
    # rows of rotary embeddings, and groups of channels, have sizes of their own
    wide = dict.fromkeys(_SIZES[32].split(), 512) | {"image_size": SMALL["image_size"]}
    yield heads | wide, False
    # widths that depend on each other are left as they are
    few = {name: size for name, size in SMALL.items() if "layer" in name or "vocab" in name}
    yield few, False
    # the number of layers follows from others
    yield {name: size for name, size in SMALL.items() if name not in DEPTHS}, False


PICTURES = ("pixel_values", "input_features", "input_values")
"""Arguments without which a model that also takes ``input_ids`` may do."""


def timm_model(name: str) -> tuple[Any, dict[str, Any]]:
    """Returns a model of timm and an image, a small one if the model takes that."""
    import timm  # loaded when it is first needed

    model = timm.create_model(name)
    _, side, _ = model.default_cfg["input_size"]
    if not model.default_cfg.get("fixed_input_size"):
        side = max(32 * (side // 64), model.default_cfg.get("min_input_size", (3, 64, 64))[1])
    name = next(iter(inspect.signature(model.forward).parameters))
    for size in (side, model.default_cfg["input_size"][1]):  # of whole patches
        x = torch.randn((1, 3, size, size), generator=torch.Generator().manual_seed(0))
        try:
            with torch.no_grad():
                model.eval()(x)
            break
        except (AssertionError, RuntimeError):
            pass
    return model, {name: x}


SMALLEST = ("test_", "atto", "xx", "nano", "tiny", "small", "_t", "_s", "_m0", "_b0", "_n")
"""Parts of names of timm's models, from those of the smallest models on."""


def _size_of(name: str) -> tuple[int, int]:
    """Returns what orders the names of a module by the sizes of their models, roughly."""
    ranks = (rank for rank, part in enumerate(SMALLEST) if part in name)
    return next(ranks, len(SMALLEST)), len(name)


def architectures(library: str) -> list[str]:
    """Returns a name for each architecture of a library."""
    if library == "transformers":
        from transformers.models.auto.modeling_auto import MODEL_MAPPING_NAMES

        return sorted(MODEL_MAPPING_NAMES)
    import timm  # loaded when it is first needed

    modules = sorted(timm.list_modules())
    return [min(timm.list_models(module=each), key=_size_of) for each in modules]
