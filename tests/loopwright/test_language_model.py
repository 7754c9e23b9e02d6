"""Llamas of GGUF files, made here, against NumPy in float64 with the same weights."""

from __future__ import annotations

import tracemalloc
from pathlib import Path
from typing import Any

import loopwright as lw
import numpy as np
import pytest
from decoder_reference import llama, softmax
from gguf_files import KINDS, small_llama
from loopwright.cli import main
from loopwright.codegen.runtime.buffers import fresh_requests
from loopwright.decoding.language_model import BLOCK, LanguageModel
from loopwright.decoding.llama import Sizes, attend, empty_cache
from loopwright.decoding.vocabulary import Vocabulary

BYTES = ["<unk>", "<s>", "</s>", *(f"<0x{n:02X}>" for n in range(256))]
PIECES = [*BYTES, "\u2581", *"abcdefgh", "\u2581a", "ab", "cd", "abcd", "<|user|>"]
SCORED = {
    "tokenizer.ggml.model": "llama",
    "tokenizer.ggml.tokens": PIECES,
    "tokenizer.ggml.scores": [float(n) for n in range(len(PIECES))],
    "tokenizer.ggml.token_type": [2, 3, 3, *[6] * 256, *[1] * 13, 3],
    "tokenizer.ggml.bos_token_id": 1,
    "tokenizer.ggml.eos_token_id": 2,
}
WORDS = len(PIECES)


def model_of(tmp_path: Path, kind: str, **more: Any) -> tuple[Path, dict[str, np.ndarray]]:
    content, weights = small_llama(kind, SCORED, WORDS, **more)
    path = tmp_path / f"{kind}.gguf"
    path.write_bytes(content)
    return path, weights


def scores_of(model: LanguageModel, weights: dict[str, np.ndarray], tokens: list[int]) -> Any:
    return llama(weights, model.model.sizes, tokens, np.float32(50000.0), np.float32(1e-4))


@pytest.mark.parametrize("kind", KINDS)
def test_scores_are_those_of_the_weights_in_the_file(tmp_path: Path, kind: str) -> None:
    others = {"output": "Q6_K", "blk.1.ffn_down": "Q6_K"} if kind == "Q4_K" else {}
    path, weights = model_of(tmp_path, kind, others=others)
    model = lw.load_language_model(path, context=300)
    for length in (1, 5, BLOCK + 3, 297):
        tokens = [(7 * n + 3) % WORDS for n in range(length)]
        cache: Any = [np.zeros((2, 2, 300, 64), np.float32) for _ in range(2)]
        scores = model.prompt(tokens, cache)
        for token in (11, 48):
            exact = scores_of(model, weights, tokens)
            np.testing.assert_allclose(scores, exact, rtol=0, atol=2e-4 * np.abs(exact).max())
            scores = model.token(np.array([token]), len(tokens), cache)
            tokens.append(token)
    assert model.block.cache_info().misses == model.token.cache_info().misses == 1


def written(model: LanguageModel, weights: dict[str, np.ndarray], text: str, count: int) -> str:
    """The best tokens, one after the other."""
    tokens = model.vocabulary.tokens(text).tolist()
    first = len(tokens)
    for _ in range(count):
        tokens.append(int(np.argmax(scores_of(model, weights, tokens))))
        if tokens[-1] == 2:
            return model.vocabulary.text(tokens[first:-1])
    return model.vocabulary.text(tokens[first:])


@pytest.mark.parametrize("kind", ["bfloat16", "int8"])
def test_caches_of_fewer_bits_are_close(tmp_path: Path, kind: str) -> None:
    path, weights = model_of(tmp_path, "Q8_0")
    model = lw.load_language_model(path, context=64, cache=kind)
    tokens, cache = model.vocabulary.tokens("ab cd"), empty_cache(model.model.sizes, kind)
    model.prompt(tokens, cache)
    scores = model.token(np.array([7]), len(tokens), cache)
    exact = scores_of(model, weights, [*tokens.tolist(), 7])
    np.testing.assert_allclose(scores, exact, rtol=0, atol=0.03 * np.abs(exact).max())
    assert len(list(model.generate("ab cd", 5))) == 5


@pytest.mark.parametrize("kind", ["float32", "bfloat16", "int8"])
def test_attention_of_short_factors_stays_within_its_bound(kind: str) -> None:
    """A score is off by what its two factors are, a weight by that and its own rounding."""
    rng, sizes = np.random.default_rng(0), Sizes(1, 256, 4, 2, 1, 1, 48)
    q, k, v = (rng.standard_normal((n, 33, 64), np.float32) for n in (4, 2, 2))
    results: dict[bool, np.ndarray] = {}
    caches = {short: empty_cache(sizes, kind)[0] for short in (False, True)}
    for short, cache in caches.items():
        compiled = lw.compile(lambda q, k, v, cache, short=short: attend(q, k, v, 0, cache, short))
        results[short] = compiled(q, k, v, cache)
    cache = caches[True]
    cache = cache[0] * cache[1][..., None] if kind == "int8" else cache
    keys, values = (np.repeat(np.abs(part[:, :33].astype("d")), 2, 0) for part in cache)
    off = 2**-8
    scores = (2 * off + off**2) * np.abs(q) @ keys.swapaxes(1, 2) / 8
    weight = np.expm1(2 * scores.max(-1, keepdims=True)) + 2 * off
    bound = (weight * values.max(1, keepdims=True)).swapaxes(0, 1).reshape(33, -1)
    error = np.abs(results[True] - results[False])
    assert (error <= bound).all() and error.max() > 1e-5


def test_an_answer_is_made_of_the_best_tokens(tmp_path: Path) -> None:
    path, weights = model_of(tmp_path, "Q8_0")
    model = lw.load_language_model(path, context=64)
    pieces = list(model.generate("ab cd", 12))
    assert "".join(pieces) == written(model, weights, "ab cd", 12) and len(pieces) >= 12
    assert len(list(model.generate("abcd" * 8, 100))) <= 64


def test_an_answer_ends_where_the_text_ends(tmp_path: Path) -> None:
    path, weights = model_of(tmp_path, "F32")
    model = lw.load_language_model(path, context=64)
    first = model.vocabulary.tokens("ab").tolist()
    tokens = [*first]
    for _ in range(3):
        tokens.append(int(np.argmax(scores_of(model, weights, tokens))))
    model.vocabulary.ends = frozenset(tokens[-1:])
    count = tokens.index(tokens[-1], len(first)) - len(first)
    text = "".join(model.generate("ab", 12))
    assert text == model.vocabulary.text(tokens[len(first) : len(first) + count])


def test_chance_is_that_of_the_seed_and_of_the_scores(tmp_path: Path) -> None:
    path, weights = model_of(tmp_path, "F32")
    model = lw.load_language_model(path, context=64)
    options = {"temperature": 1.5, "top_k": 50, "top_p": 0.9}
    texts = ["".join(model.generate("ab", 8, seed=n, **options)) for n in (1, 1, 2)]
    assert texts[0] == texts[1] != texts[2]
    exact = scores_of(model, weights, model.vocabulary.tokens("ab").tolist())
    best = np.argsort(-exact)[:4]
    shares = softmax(exact[best] / 0.3)
    few = best[: 1 + int(np.sum(np.cumsum(shares) < 0.5))]
    allowed = {model.vocabulary.text([t]) for t in few.tolist()}
    choices = {"temperature": 0.3, "top_k": 4, "top_p": 0.5}
    firsts = {"".join(model.generate("ab", 1, seed=n, **choices)) for n in range(30)}
    assert firsts <= allowed
    best_one = "".join(model.generate("ab", 1))
    for n in range(5):
        assert "".join(model.generate("ab", 1, seed=n, temperature=5.0, top_k=1)) == best_one


@pytest.mark.parametrize(
    ("cache", "activations"), [("float32", "int8"), ("bfloat16", "float32"), ("int8", "int8")]
)
def test_a_token_asks_for_no_memory(tmp_path: Path, cache: str, activations: str) -> None:
    path, _ = model_of(tmp_path, "Q4_0")
    model = lw.load_language_model(path, context=96, cache=cache, activations=activations)
    layers, token = empty_cache(model.model.sizes, cache), np.array([7])
    for position in range(4):
        scores = model.token(token, position, layers)
    requests = fresh_requests()
    tracemalloc.start()
    for position in range(4, 96):
        scores = model.token(token, position, layers)
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert fresh_requests() == requests and scores.nbytes > 1024
    assert most < 2048, "bytes of Python's objects at once, no array among them"


def test_the_command_prints_text_and_speed(tmp_path: Path, capsys: Any) -> None:
    path, _ = model_of(tmp_path, "Q4_0")
    arguments = ["generate", str(path), "ab a", "--tokens", "6", "--threads", "1"]
    assert main([*arguments, "--context", "40"]) == 0
    out, err = capsys.readouterr()
    assert out.startswith("ab a") and "tokens/s" in err
    more = ["--temperature", "0.8", "--cache", "int8", "--activations", "int8"]
    assert main([*arguments, *more]) == 0
    for wrong, message in (
        (["--temperature", "-1"], "temperature=-1.0"),
        (["--context", "3"], "tokens; 1 to 3 fit into the context"),
        (["--top-p", "0"], "top_p=0.0"),
    ):
        assert main([*arguments, *wrong]) == 2
        assert message in capsys.readouterr().err


def test_pieces_are_joined_by_their_scores() -> None:
    words = Vocabulary(SCORED)
    names = [PIECES[t] for t in words.tokens("abcd a\u00e9")]
    assert names == ["<s>", "\u2581", "abcd", "\u2581a", "<0xC3>", "<0xA9>"]
    assert words.text(words.tokens("abcd a\u00e9")) == " abcd a\u00e9"
    assert [PIECES[t] for t in words.tokens("<|user|>a")] == ["<s>", "<|user|>", "\u2581a"]
    assert words.text(words.tokens("<|user|>a")) == " a" and words.ends == {2}


MERGES = ["\u0120 t", "h e", "\u0120t he", "i n", "1 2", "12 3", "\u0120 \u0120", "\u00c3 \u00a9"]


def by_rank(pre: str, *more: str) -> tuple[Vocabulary, list[str]]:
    signs = [*range(33, 127), *range(161, 173), *range(174, 256)]
    letters = [*map(chr, signs), *map(chr, range(256, 256 + 256 - len(signs)))]
    pieces = [*letters, *(m.replace(" ", "") for m in MERGES), *more, "<|end|>"]
    about = {
        "tokenizer.ggml.model": "gpt2",
        "tokenizer.ggml.pre": pre,
        "tokenizer.ggml.tokens": pieces,
        "tokenizer.ggml.merges": MERGES,
        "tokenizer.ggml.token_type": [1] * (len(pieces) - 1) + [3],
        "tokenizer.ggml.eos_token_id": len(pieces) - 1,
    }
    return Vocabulary(about), pieces


@pytest.mark.parametrize(
    ("pre", "text", "wanted"),
    [
        ("gpt-2", "the thein", "t he \u0120the in"),
        ("gpt-2", "a  the 1234", "a \u0120 \u0120the \u0120 123 4"),
        ("gpt-2", "he's\u00e9 \u00e9", "he ' s \u00c3\u00a9 \u0120 \u00c3\u00a9"),
        ("gpt-2", "a  \n", "a \u0120\u0120 \u010a"),
        ("llama-bpe", "the 12345", "t he \u0120 123 4 5"),
        ("llama-bpe", "in!the  \n\nin", "in ! t he \u0120\u0120 \u010a \u010a in"),
        ("llama-bpe", " xyz", "\u0120xyz"),
        ("smollm", "12  1", "1 2 \u0120\u0120 1"),
        ("qwen2", "123", "1 2 3"),
        ("default", "<|end|>he", "<|end|> he"),
    ],
)
def test_pieces_are_joined_by_their_ranks(pre: str, text: str, wanted: str) -> None:
    words, pieces = by_rank(pre, "\u0120xyz")
    tokens = words.tokens(text)
    assert [pieces[t] for t in tokens] == wanted.split()
    assert words.text(tokens) == text.replace("<|end|>", "")
    assert words.ends == {len(pieces) - 1}


HOSTILE = {
    "general.architecture": ("mamba", "of the kind 'mamba'"),
    "llama.block_count": (1 << 31, "layers of"),
    "llama.embedding_length": (255, "do not share 255 elements"),
    "llama.attention.head_count": (0, "is 0, not an integer from 1 on"),
    "llama.attention.head_count_kv": (3, "3 of keys"),
    "llama.attention.key_length": (32, "key_length is 32"),
    "llama.rope.freq_base": (float("nan"), "freq_base is nan"),
    "llama.rope.scaling.type": ("yarn", "'yarn'; 'linear' is supported"),
    "llama.rope.scaling.factor": (0.0, "factor is 0.0, not a positive number"),
    "llama.attention.layer_norm_rms_epsilon": (-1.0, "rms_epsilon is -1.0"),
    "llama.feed_forward_length": (1 << 30, "in the file, not"),
    "llama.context_length": ("long", "context_length is 'long'"),
    "llama.expert_count": (8, "expert_count is 8"),
    "tokenizer.ggml.model": ("bert", "of the kind 'bert'"),
    "tokenizer.ggml.tokens": (["a"], "not a number for each token"),
    "tokenizer.ggml.scores": ([float("inf")] * WORDS, "tokenizer.ggml.scores"),
    "tokenizer.ggml.bos_token_id": (1 << 30, "not a token"),
}


@pytest.mark.parametrize(
    "keys",
    [
        {"scaling.factor": 2.0},
        {"scaling.factor": 2.0, "scaling.type": "linear"},
        {"scale_linear": 2.0},
        {"scaling.factor": 2.0, "scaling.type": "none"},
    ],
)
def test_positions_are_stretched_as_files_say(tmp_path: Path, keys: dict[str, Any]) -> None:
    path, there = tmp_path / "model.gguf", {f"llama.rope.{k}": v for k, v in keys.items()}
    plain = lw.load_language_model(model_of(tmp_path, "F16")[0], context=64).model
    path.write_bytes(small_llama("F16", SCORED | there, WORDS)[0])
    model = lw.load_language_model(path, context=64).model
    step = 1 if "none" in keys.values() else 2
    np.testing.assert_allclose(model.sines[::step], plain.sines[: 64 // step], atol=1e-6)
    np.testing.assert_allclose(model.cosines[::step], plain.cosines[: 64 // step], atol=1e-6)


@pytest.mark.parametrize("key", HOSTILE)
def test_files_that_make_no_sense_are_refused(tmp_path: Path, key: str) -> None:
    value, message = HOSTILE[key]
    path = tmp_path / "model.gguf"
    path.write_bytes(small_llama("F16", SCORED | {key: value}, WORDS)[0])
    with pytest.raises(lw.LoopwrightError, match=message):
        lw.load_language_model(path)


def test_tensors_that_do_not_fit_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "model.gguf"
    content, _ = small_llama("F16", SCORED, WORDS)
    for old, new, message in (
        (b"blk.0.attn_q.weight", b"blk.0.attn_q.unused", "q_proj.weight is None"),
        (b"blk.1.ffn_up.weight", b"blk.7.ffn_up.weight", "1.mlp.up_proj.weight is None"),
        (b"output_norm.weight", b"0utput_norm.weight", "norm.weight is None"),
    ):
        path.write_bytes(content.replace(old, new))
        with pytest.raises(lw.LoopwrightValueError, match=message):
            lw.load_language_model(path)
    for length in range(0, len(content) // 2, len(content) // 40):
        path.write_bytes(content[:length])
        with pytest.raises(lw.LoopwrightError):
            lw.load_language_model(path)
    nan = small_llama("F32", SCORED, WORDS)[0]
    place = len(nan) - 64
    path.write_bytes(nan[:place] + np.float32(np.nan).tobytes() * 16)
    with pytest.raises(lw.LoopwrightValueError, match="not finite"):
        list(lw.load_language_model(path, context=64).generate("ab", 3))
