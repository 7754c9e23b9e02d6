"""The decoders against plain NumPy in float64, which keeps no cache."""

from __future__ import annotations

from typing import Any

import loopwright as lw
import numpy as np
import pytest
from decoder_reference import attention, heads_of, llama, softmax
from loopwright.decoding.language_model import greedy, sampler
from loopwright.decoding.llama import Llama, Sizes, empty_cache

from examples.decoder import (
    GPT2,
    KINDS,
    Answerer,
    Speculator,
    narrowed,
    random_weights,
    speculative,
    widened,
)
from examples.decoder.__main__ import main

Array = np.ndarray[Any, Any]

GPT2_SIZES = Sizes(layers=2, width=24, heads=3, groups=3, hidden=40, words=50, context=20)
LLAMA_SIZES = Sizes(layers=2, width=32, heads=4, groups=2, hidden=48, words=50, context=20)


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
        found = attention(*(heads_of(part, sizes.head) for part in qkv))
        x = x + dense(found, f"{name}.attn.c_proj")
        h = dense(_layer_norm(x, w, f"{name}.ln_2"), f"{name}.mlp.c_fc")
        h = h / 2 * (1 + np.tanh(np.sqrt(2 / np.pi) * (h + 0.044715 * h**3)))
        x = x + dense(h, f"{name}.mlp.c_proj")
    return _layer_norm(x, w, "ln_f")[-1] @ w["wte.weight"].T


MODELS = {"gpt2": (GPT2, GPT2_SIZES, gpt2), "llama": (Llama, LLAMA_SIZES, llama)}


@pytest.fixture(scope="module", params=MODELS)
def case(request: pytest.FixtureRequest) -> tuple[Answerer, Any]:
    kind, sizes, reference = MODELS[request.param]
    weights = random_weights(kind.shapes(sizes))
    wide = {name: array.astype(np.float64) for name, array in weights.items()}
    decoder = Answerer(kind.loaded(weights, sizes.heads) if kind is GPT2 else kind(sizes, weights))
    return decoder, lambda tokens: reference(wide, decoder.model.sizes, tokens)


def test_scores_are_those_of_numpy_token_by_token(case: tuple[Answerer, Any]) -> None:
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
    assert decoder.token.cache_info().misses == decoder.block.cache_info().misses == 1
    with pytest.raises(lw.LoopwrightError, match="1 to 20 fit"):
        decoder.prompt(np.zeros(21, np.int64), cache)


def test_an_answer_is_what_its_tokens_are_one_by_one(case: tuple[Answerer, Any]) -> None:
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
    expected = softmax(np.array([3.0, 1, 2]) / 0.5) * 4000
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
    decoder = Answerer(model(sizes, weights))
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
    decoder, cache = Answerer(GPT2(sizes, weights)), empty_cache(sizes, kind)
    for call, given, start in ((decoder.prompt, tokens, 0), (decoder.token, tokens[:1], 4)):
        scores = call(given, cache) if start == 0 else call(given, start, cache)
        wanted: Any = exact(given, start, wide)
        np.testing.assert_allclose(scores, wanted, rtol=0, atol=0.02 * np.abs(wanted).max())
    answer = decoder.answer(scores, 5, 3, lw.random.key(0), cache)
    assert answer.shape == (sizes.context,) and (answer[:3] < sizes.words).all()


@pytest.mark.parametrize("ahead", [1, 3])
@pytest.mark.parametrize("kind", ["int8", "another"])
def test_speculative_decoding_gives_the_answer_of_the_model_alone(kind: str, ahead: int) -> None:
    sizes = Sizes(layers=2, width=32, heads=2, groups=2, hidden=64, words=50, context=40)
    weights = random_weights(GPT2.shapes(sizes))
    other = random_weights(GPT2.shapes(sizes), seed=1)
    draft = GPT2(sizes, other if kind == "another" else narrowed(weights, kind))
    speculator = Speculator(GPT2(sizes, weights), draft, ahead, threads=1)
    prompt = np.array([3, 1, 4, 1, 5])
    answer = speculator.answer(prompt, 20)
    tokens = prompt.tolist()
    for _ in range(20):
        scores = gpt2({n: w.astype(np.float64) for n, w in weights.items()}, sizes, tokens)
        tokens.append(int(np.argmax(scores)))
    assert answer.tolist() == tokens[5:]
    # A round gives a token at least, and with a good draft nearly as many as are guessed.
    assert 20 / (ahead + 1) <= speculator.rounds <= (20 if kind == "another" else 14)
    with pytest.raises(ValueError, match="context of 40"):
        speculator.answer(prompt, 35)


def test_the_demo_of_speculative_decoding(capsys: pytest.CaptureFixture[str]) -> None:
    assert speculative.main(["so", "--tokens", "8", "--threads", "1", "--ahead", "2"]) == 0
    alone, drafted = capsys.readouterr().out.splitlines()
    assert alone.split(": ")[1] == drafted.split(": ")[1]
