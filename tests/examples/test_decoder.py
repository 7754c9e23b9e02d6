"""The decoders against plain NumPy in float64, which keeps no cache."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import loopwright as lw
import numpy as np
import pytest
from gguf_files import gguf, q4_0

from examples.decoder import (
    GPT2,
    KINDS,
    Decoder,
    Llama,
    Sizes,
    empty_cache,
    greedy,
    narrowed,
    random_weights,
    read_gguf,
    sampler,
    widened,
)
from examples.decoder.__main__ import main

Array = np.ndarray[Any, Any]

GPT2_SIZES = Sizes(layers=2, width=24, heads=3, groups=3, hidden=40, words=50, context=20)
LLAMA_SIZES = Sizes(layers=2, width=32, heads=4, groups=2, hidden=48, words=50, context=20)


def _softmax(x: Array) -> Array:
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def _attention(q: Array, k: Array, v: Array) -> Array:
    """(heads, n, size) queries, (groups, n, size) keys and values -> (n, heads * size)."""
    n, parts = q.shape[1], []
    for number, query in enumerate(q):
        group = number * len(k) // len(q)
        scores = query @ k[group].T / np.sqrt(q.shape[2])
        parts.append(_softmax(np.where(np.tri(n), scores, -np.inf)) @ v[group])
    return np.concatenate(parts, axis=1)


def _heads(x: Array, size: int) -> Array:
    return x.reshape(len(x), -1, size).swapaxes(0, 1)


def _layer_norm(x: Array, w: dict[str, Array], name: str) -> Array:
    x = (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + 1e-5)
    return x * w[f"{name}.weight"] + w[f"{name}.bias"]


def gpt2(w: dict[str, Array], sizes: Sizes, tokens: list[int]) -> Array:
    def dense(x, name):
        return x @ w[f"{name}.weight"] + w[f"{name}.bias"]

    x = w["wte.weight"][tokens] + w["wpe.weight"][: len(tokens)]
    for layer in range(sizes.layers):
        name = f"h.{layer}"
        qkv = np.split(dense(_layer_norm(x, w, f"{name}.ln_1"), f"{name}.attn.c_attn"), 3, 1)
        found = _attention(*(_heads(part, sizes.head) for part in qkv))
        x = x + dense(found, f"{name}.attn.c_proj")
        h = dense(_layer_norm(x, w, f"{name}.ln_2"), f"{name}.mlp.c_fc")
        h = h / 2 * (1 + np.tanh(np.sqrt(2 / np.pi) * (h + 0.044715 * h**3)))
        x = x + dense(h, f"{name}.mlp.c_proj")
    return _layer_norm(x, w, "ln_f")[-1] @ w["wte.weight"].T


def llama(w: dict[str, Array], sizes: Sizes, tokens: list[int]) -> Array:
    def norm(x, name):
        return x / np.sqrt((x**2).mean(-1, keepdims=True) + 1e-5) * w[f"{name}.weight"]

    def rotated(x):  # as complex numbers: pairs are the two halves of a head
        half = sizes.head // 2
        angles = np.outer(np.arange(len(tokens)), 10000.0 ** (-np.arange(half) / half))
        z = (x[..., :half] + 1j * x[..., half:]) * np.exp(1j * angles)
        return np.concatenate([z.real, z.imag], axis=-1)

    x = w["model.embed_tokens.weight"][tokens]
    for layer in range(sizes.layers):
        p = {n: w[f"model.layers.{layer}.{n}.weight"].T for n in _PARTS}
        h = norm(x, f"model.layers.{layer}.input_layernorm")
        q, k, v = (_heads(h @ p[f"self_attn.{n}_proj"], sizes.head) for n in "qkv")
        x = x + _attention(rotated(q), rotated(k), v) @ p["self_attn.o_proj"]
        h = norm(x, f"model.layers.{layer}.post_attention_layernorm")
        gate = h @ p["mlp.gate_proj"]
        x = x + (gate / (1 + np.exp(-gate)) * (h @ p["mlp.up_proj"])) @ p["mlp.down_proj"]
    return norm(x, "model.norm")[-1] @ w["lm_head.weight"].T


_PARTS = [f"self_attn.{n}_proj" for n in "qkvo"] + [f"mlp.{n}_proj" for n in ("gate", "up", "down")]

MODELS = {"gpt2": (GPT2, GPT2_SIZES, gpt2), "llama": (Llama, LLAMA_SIZES, llama)}


@pytest.fixture(scope="module", params=MODELS)
def case(request: pytest.FixtureRequest) -> tuple[Decoder, Any]:
    kind, sizes, reference = MODELS[request.param]
    weights = random_weights(kind.shapes(sizes))
    wide = {name: array.astype(np.float64) for name, array in weights.items()}
    decoder = Decoder(kind.loaded(weights, sizes.heads) if kind is GPT2 else kind(sizes, weights))
    return decoder, lambda tokens: reference(wide, decoder.model.sizes, tokens)


def test_scores_are_those_of_numpy_token_by_token(case: tuple[Decoder, Any]) -> None:
    decoder, reference = case
    for length in (1, 2, 7):
        tokens = [3 * n % 50 for n in range(length)]
        cache = empty_cache(decoder.model.sizes)
        scores = decoder.prompt(np.array(tokens), cache)
        for token in (11, 5, 48):
            np.testing.assert_allclose(scores, reference(tokens), rtol=1e-4, atol=1e-4)
            scores = decoder.token(np.array([token]), len(tokens), cache)
            tokens.append(token)
        np.testing.assert_allclose(scores, reference(tokens), rtol=1e-4, atol=1e-4)
    assert decoder.token.cache_info().misses == decoder.prompt.cache_info().misses == 1
    with pytest.raises(lw.LoopwrightError, match="length"):
        decoder.prompt(np.zeros(21, np.int64), cache)


def test_an_answer_is_what_its_tokens_are_one_by_one(case: tuple[Decoder, Any]) -> None:
    decoder, reference = case
    cache = empty_cache(decoder.model.sizes)
    scores = decoder.prompt(np.array([7, 1, 30]), cache)
    tokens = decoder.answer(scores, 3, 6, lw.random.key(0), cache)[:6].tolist()
    for n, token in enumerate(tokens):
        scores = reference([7, 1, 30, *tokens[:n]])
        assert scores[token] > scores.max() - 1e-4
    one_more = decoder.token(np.array([9]), 9, cache)  # the answer is in the cache
    wanted = reference([7, 1, 30, *tokens, 9])
    np.testing.assert_allclose(one_more, wanted, rtol=1e-4, atol=1e-4)


def test_samples_are_among_the_best_tokens_and_follow_their_scores() -> None:
    scores = np.array([0, 3, 1, 2, -1], np.float32)
    keys = lw.random.split(lw.random.key(1), 4000)
    choose = lw.compile(lambda keys: lw.map(lambda key: sampler(0.5, 3)(key, scores), keys))
    counts = np.bincount(choose(keys), minlength=5)
    expected = _softmax(np.array([3.0, 1, 2]) / 0.5) * 4000
    assert counts[0] == counts[4] == 0
    np.testing.assert_allclose(counts[[1, 2, 3]], expected, atol=120)
    assert greedy(None, scores) == 1


@pytest.mark.parametrize("options", [["--temperature", "0.9"], ["--model", "llama"]])
def test_the_demo_prints_its_speed(options: list[str], capsys: Any) -> None:
    assert main(["hello", "--tokens", "5", "--threads", "1", *options]) == 0
    assert "tokens/s" in capsys.readouterr().out
    assert main(["hello" * 60]) == 2


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("model", [GPT2, Llama])
def test_weights_of_fewer_bits(model: type[GPT2] | type[Llama], kind: str) -> None:
    sizes = Sizes(layers=2, width=64, heads=4, groups=4, hidden=96, words=50, context=20)
    weights = narrowed(random_weights(model.shapes(sizes)), kind, model is Llama)
    exact = widened(weights, model is Llama)
    tokens, cache = np.array([3, 14, 15, 9]), empty_cache(sizes)
    decoder = Decoder(model(sizes, weights))
    wide: Any = [layer.astype(np.float64) for layer in empty_cache(sizes)]
    for scores, wanted in (
        (decoder.prompt(tokens, cache), model(sizes, exact)(tokens, 0, wide)),
        (decoder.token(tokens[:1], 4, cache), model(sizes, exact)(tokens[:1], 4, wide)),
    ):
        allowed = 1e-5 if kind in ("float32", "bfloat16") else 0.05
        np.testing.assert_allclose(scores, wanted, rtol=0, atol=allowed * np.abs(wanted).max())


@pytest.mark.parametrize("kind", ["bfloat16", "int8"])
def test_a_cache_of_fewer_bits(kind: str) -> None:
    sizes = GPT2_SIZES
    weights = random_weights(GPT2.shapes(sizes))
    exact = GPT2(sizes, {name: w.astype(np.float64) for name, w in weights.items()})
    tokens, wide = np.array([3, 14, 15, 9]), [c.astype(np.float64) for c in empty_cache(sizes)]
    decoder, cache = Decoder(GPT2(sizes, weights)), empty_cache(sizes, kind)
    for call, given, start in ((decoder.prompt, tokens, 0), (decoder.token, tokens[:1], 4)):
        scores = call(given, cache) if start == 0 else call(given, start, cache)
        wanted: Any = exact(given, start, wide)
        np.testing.assert_allclose(scores, wanted, rtol=0, atol=0.02 * np.abs(wanted).max())
    answer = decoder.answer(scores, 5, 3, lw.random.key(0), cache)
    assert answer.shape == (sizes.context,) and (answer[:3] < sizes.words).all()


def test_a_llama_of_a_gguf_file(tmp_path: Path, capsys: Any) -> None:
    sizes = Sizes(layers=2, width=64, heads=4, groups=2, hidden=96, words=300, context=20)
    pieces = ["<s>", *(f"<0x{n:02X}>" for n in range(256)), "\u2581", "a", "b", "\u2581a", "ab"]
    pieces += [f"piece {n}" for n in range(sizes.words - len(pieces))]
    metadata = {
        "llama.block_count": sizes.layers,
        "llama.embedding_length": sizes.width,
        "llama.feed_forward_length": sizes.hidden,
        "llama.attention.head_count": sizes.heads,
        "llama.attention.head_count_kv": sizes.groups,
        "llama.context_length": sizes.context,
        "tokenizer.ggml.tokens": pieces,
        "tokenizer.ggml.scores": [float(n) for n in range(len(pieces))],
        "tokenizer.ggml.bos_token_id": 0,
    }
    matrices = {"attn_q": (64, 64), "attn_k": (32, 64), "attn_v": (32, 64), "attn_output": (64, 64)}
    matrices |= {"ffn_gate": (96, 64), "ffn_up": (96, 64), "ffn_down": (64, 96)}
    tensors: dict[str, tuple[list[int], int, bytes]] = {}
    wide: dict[str, Array] = {}

    def add(name: str, ours: str, shape: tuple[int, ...], heads: int = 0) -> None:
        if len(shape) == 1:
            wide[ours] = np.linspace(0.5, 1.5, shape[0])
            tensors[name] = [*shape], 0, wide[ours].astype(np.float32).tobytes()
            return
        content, matrix = q4_0(*shape)
        tensors[name] = [*shape], 2, content
        if heads:  # pairs of a rotation are neighbours in the file
            matrix = matrix.reshape(heads, -1, 2, shape[1]).swapaxes(1, 2).reshape(shape)
        wide[ours] = matrix

    add("token_embd.weight", "model.embed_tokens.weight", (sizes.words, sizes.width))
    wide["lm_head.weight"] = wide["model.embed_tokens.weight"]
    add("output_norm.weight", "model.norm.weight", (sizes.width,))
    names = ("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj", "self_attn.o_proj")
    names += ("mlp.gate_proj", "mlp.up_proj", "mlp.down_proj")
    for layer in range(sizes.layers):
        ours = f"model.layers.{layer}"
        add(f"blk.{layer}.attn_norm.weight", f"{ours}.input_layernorm.weight", (64,))
        add(f"blk.{layer}.ffn_norm.weight", f"{ours}.post_attention_layernorm.weight", (64,))
        for (kind, shape), name in zip(matrices.items(), names, strict=True):
            heads = {"attn_q": sizes.heads, "attn_k": sizes.groups}.get(kind, 0)
            add(f"blk.{layer}.{kind}.weight", f"{ours}.{name}.weight", shape, heads)
    path = tmp_path / "model.gguf"
    path.write_bytes(gguf(tensors, metadata))

    model, vocabulary = read_gguf(path)
    assert model.sizes == sizes
    tokens = vocabulary.tokens("ab a\u00e9")
    assert [pieces[t] for t in tokens] == ["<s>", "\u2581", "ab", "\u2581a", "<0xC3>", "<0xA9>"]
    assert vocabulary.text(tokens[1:]) == " ab a\u00e9"
    decoder, cache = Decoder(model), empty_cache(sizes)
    exact: Any = [layer.astype(np.float64) for layer in empty_cache(sizes)]
    wanted = Llama(sizes, wide)(tokens, 0, exact)
    scores = decoder.prompt(tokens, cache)
    np.testing.assert_allclose(scores, wanted, rtol=0, atol=0.1 * np.abs(wanted).max())
    assert main(["ab a", "--weights", str(path), "--tokens", "3"]) == 0
    assert "tokens/s for the 3 of the answer" in capsys.readouterr().out
