"""Llamas from GGUF files: the model, its matrices in the blocks of the file, and its tokens."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any

import loopwright as lw
import ml_dtypes
import numpy as np

from .models import Llama, Sizes

__all__ = ["Vocabulary", "read_gguf"]

_NAMES = {
    "token_embd": "model.embed_tokens",
    "output_norm": "model.norm",
    "output": "lm_head",
    "attn_norm": "input_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "ffn_norm": "post_attention_layernorm",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}
"""What the tensors of a file are called by the models here."""
_SPACE = "\u2581"


class Vocabulary:
    """The tokens of a file, each a piece of text or a byte; pieces are joined by their scores."""

    def __init__(self, metadata: Mapping[str, Any]) -> None:
        self.pieces = list(metadata["tokenizer.ggml.tokens"])
        self.numbers = {piece: n for n, piece in enumerate(self.pieces)}
        self.scores = np.asarray(metadata.get("tokenizer.ggml.scores", np.zeros(len(self.pieces))))
        self.first = metadata.get("tokenizer.ggml.bos_token_id")

    def tokens(self, text: str) -> np.ndarray:
        """Returns the tokens of a text: its characters, of which the two neighbours that make the
        piece with the highest score are joined, as long as there are any."""
        parts = list(_SPACE + text.replace(" ", _SPACE))
        while True:
            pairs = [
                (self.scores[self.numbers[a + b]], -n)
                for n, (a, b) in enumerate(pairwise(parts))
                if a + b in self.numbers
            ]
            if not pairs:
                break
            at = -max(pairs)[1]
            parts[at : at + 2] = [parts[at] + parts[at + 1]]
        made = [] if self.first is None else [self.first]
        for part in parts:
            pieces = [part] if part in self.numbers else [f"<0x{b:02X}>" for b in part.encode()]
            made += [self.numbers[piece] for piece in pieces]
        return np.array(made, np.int64)

    def text(self, tokens: Any) -> str:
        """Returns the text of tokens."""
        content = b""
        for token in tokens:
            piece = self.pieces[int(token)]
            is_byte = piece.startswith("<0x") and piece.endswith(">")
            content += bytes([int(piece[3:-1], 16)]) if is_byte else piece.encode()
        return content.decode(errors="replace").replace(_SPACE, " ")


def read_gguf(path: str | Path, context: int = 1024) -> tuple[Llama, Vocabulary]:
    """Returns the Llama in a file, for at most ``context`` positions, and its vocabulary."""
    file = lw.load_weights(path)
    about = {k.removeprefix("llama."): v for k, v in file.metadata.items()}
    heads, groups = (int(about[f"attention.head_count{k}"]) for k in ("", "_kv"))
    weights: dict[str, Any] = {}
    for name, tensor in file.tensors.items():
        *layer, kind = name.removesuffix(".weight").split(".")
        inside = f"model.layers.{layer[1]}." if layer else ""
        if kind in ("attn_q", "attn_k"):
            tensor = _halved(tensor, heads if kind == "attn_q" else groups)
        weights[f"{inside}{_NAMES[kind]}.weight"] = tensor
    embedding = weights["model.embed_tokens.weight"]
    weights.setdefault("lm_head.weight", embedding)
    rows = _dense(embedding).astype(ml_dtypes.bfloat16)
    weights["model.embed_tokens.weight"] = rows
    sizes = Sizes(
        layers=int(about["block_count"]),
        width=int(about["embedding_length"]),
        heads=heads,
        groups=groups,
        hidden=int(about["feed_forward_length"]),
        words=len(rows),
        context=min(context, int(about["context_length"])),
    )
    base = float(about.get("rope.freq_base", 10000.0))
    return Llama(sizes, weights, base), Vocabulary(file.metadata)


def _halved(tensor: Any, heads: int) -> Any:
    """Rows of queries or keys in the order in which a rotation takes one of each half of a head;
    files have the two beside each other."""
    if isinstance(tensor, np.ndarray):
        return _moved(tensor, heads)
    fields = (tensor.w, tensor.scales, tensor.least)
    w, scales, least = (f if f is None else _moved(f.T, heads).T.copy() for f in fields)
    return type(tensor)(w, scales, tensor.bits, least)


def _moved(rows: np.ndarray, heads: int) -> np.ndarray:
    return rows.reshape(heads, -1, 2, rows.shape[1]).swapaxes(1, 2).reshape(rows.shape)


def _dense(tensor: Any) -> np.ndarray:
    """A matrix (n, k) of floats."""
    if isinstance(tensor, np.ndarray):
        return tensor
    groups = len(tensor.scales)
    shifts = np.arange(0, 8, tensor.bits, dtype=np.uint8)[:, None, None]
    codes = tensor.w.reshape(groups, 1, -1, tensor.w.shape[1]) >> shifts & (2**tensor.bits - 1)
    codes = codes.reshape(groups, -1, tensor.w.shape[1]).astype(np.float32)
    zero = 0 if tensor.least is not None else 2 ** (tensor.bits - 1)
    values = (codes - zero) * tensor.scales.astype(np.float32)[:, None]
    values = values if tensor.least is None else values - tensor.least[:, None]
    return values.reshape(-1, tensor.w.shape[1]).T
