"""Tokens of a GGUF file: a text becomes pieces whose neighbours are joined, best pair first.

What is best says the file: the score of what comes of it ("llama", as SentencePiece does), or its
place in a list of merges ("gpt2", byte pair encoding: R. Sennrich and others, 2016).
"""

from __future__ import annotations

import heapq
import re
import unicodedata
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from itertools import chain, pairwise
from typing import Any

import numpy as np

from ..ir.dtype import Array
from ..ir.errors import LoopwrightValueError

SPACE = "\u2581"
"""The character for a space in pieces that have scores."""

CONTROL, USER_DEFINED = 3, 4
"""Kinds of tokens that are whole in any text; the former add nothing to one."""

_REST = r"| ?[a-zA-Z]+| ?[0-9]+| ?[^\sa-zA-Z0-9]+|\s+(?!\S)|\s+"
_GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d" + _REST
_LLAMA3 = (
    r"(?:'[sStTmMdD]|'[rR][eE]|'[vV][eE]|'[lL][lL])|[^\r\na-zA-Z0-9]?[a-zA-Z]+|[0-9]{1,3}"
    r"| ?[^\sa-zA-Z0-9]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
_WORDS = {
    "default": (_GPT2,),
    "gpt-2": (_GPT2,),
    "llama-bpe": (_LLAMA3,),
    "qwen2": (_LLAMA3.replace("{1,3}", ""),),
    "smollm": ("[0-9]", _GPT2),
}
"""Words, which no merge crosses, by ``tokenizer.ggml.pre``: expressions that cut a text one after
the other, where letters and digits are those of ``_classes``."""


class Vocabulary:
    """The tokens of a file, by its ``metadata``. ``ends`` are those at which a text ends.

    Raises LoopwrightValueError for kinds of tokens that are not supported, and for metadata that
    contradict each other.
    """

    def __init__(self, metadata: Mapping[str, Any]) -> None:
        about = {
            key.removeprefix("tokenizer.ggml."): value
            for key, value in metadata.items()
            if key.startswith("tokenizer.ggml.")
        }
        self.pieces: list[str] = _texts(about, "tokens")
        count = len(self.pieces)
        self._numbers = {piece: n for n, piece in enumerate(self.pieces)}
        kinds = _numbers_of(about, "token_type", count, 1)
        model = about.get("model", "llama")
        if model not in ("llama", "gpt2"):
            raise LoopwrightValueError(f"tokens of the kind {model!r}; 'llama' and 'gpt2' are read")
        self._is_scored, self._pre = model == "llama", about.get("pre", "default")
        if self._is_scored:
            scores = _numbers_of(about, "scores", count, 0)
            self._scores = {piece: -float(scores[n]) for piece, n in self._numbers.items()}
        else:
            merges = enumerate(_texts(about, "merges"))
            self._ranks = {tuple(merge.split(" ", 1)): rank for rank, merge in merges}
            if self._pre not in _WORDS:
                raise LoopwrightValueError(
                    f"words of the kind {self._pre!r}; {', '.join(_WORDS)} are read"
                )
        self._kinds = kinds
        whole = [self.pieces[n] for n in np.flatnonzero(np.isin(kinds, (CONTROL, USER_DEFINED)))]
        whole = sorted(map(re.escape, filter(None, whole)), key=len, reverse=True)
        self._whole = re.compile(f"({'|'.join(whole)})") if whole else None
        self._prefix = SPACE if about.get("add_space_prefix", True) else ""
        first = self._token(about, "bos_token_id")
        adds = about.get("add_bos_token", self._is_scored or self._pre == "llama-bpe")
        self._first = [first] if first is not None and adds else []
        ends = (self._token(about, f"{name}_token_id") for name in ("eos", "eot", "eom"))
        self.ends = frozenset(end for end in ends if end is not None)

    def _token(self, about: Mapping[str, Any], key: str) -> int | None:
        token = about.get(key)
        if token is not None and not (type(token) is int and 0 <= token < len(self.pieces)):
            raise LoopwrightValueError(f"tokenizer.ggml.{key} is {token!r}, not a token")
        return token

    def tokens(self, text: str) -> Array:
        """Returns the tokens of a text, behind the first one of all texts if the file says so.
        Tokens that are whole in any text, those that part a chat among them, are taken as such.
        Raises LoopwrightValueError for a text that the tokens cannot express."""
        made = list(self._first)
        for n, part in enumerate(self._whole.split(text) if self._whole else [text]):
            if n % 2:
                made.append(self._numbers[part])
            elif part:
                made += self._scored(part) if self._is_scored else self._merged(part)
        return np.array(made, np.int64)

    def content(self, token: int) -> bytes:
        """Returns the bytes that a token adds to a text, which may be part of a character."""
        piece, kind = self.pieces[token], self._kinds[token]
        if kind == CONTROL:
            return b""
        if self._is_scored:
            byte = re.fullmatch("<0x([0-9A-F]{2})>", piece)
            return bytes([int(byte[1], 16)]) if byte else piece.replace(SPACE, " ").encode()
        codes = _codes()
        if kind == USER_DEFINED or not codes.keys() >= set(piece):
            return piece.encode()
        return bytes(codes[letter] for letter in piece)

    def text(self, tokens: Iterable[int]) -> str:
        """Returns the text of tokens."""
        return b"".join(self.content(int(token)) for token in tokens).decode(errors="replace")

    def _scored(self, text: str) -> list[int]:
        parts = list(self._prefix + text.replace(" ", SPACE))
        made: list[int] = []
        for part in joined(parts, lambda a, b: self._scores.get(a + b)):
            whole = part in self._numbers
            pieces = [part] if whole else [f"<0x{b:02X}>" for b in part.encode()]
            made += map(self._number, pieces)
        return made

    def _merged(self, text: str) -> list[int]:
        words, letter_of = [text], list(_codes())
        for expression in _WORDS[self._pre]:
            words = [part for word in words for part in _cut(word, expression)]
        made: list[int] = []
        for word in words:
            letters = [letter_of[byte] for byte in word.encode()]
            if "".join(letters) in self._numbers and self._pre == "llama-bpe":
                letters = ["".join(letters)]
            made += map(self._number, joined(letters, lambda a, b: self._ranks.get((a, b))))
        return made

    def _number(self, piece: str) -> int:
        if piece not in self._numbers:
            raise LoopwrightValueError(f"no token of the file is {piece!r}")
        return self._numbers[piece]


def joined(parts: list[str], rank: Callable[[str, str], float | None]) -> list[str]:
    """Returns a text's parts, of which the two neighbours of the least ``rank`` are joined, the
    leftmost first, until none has one.

    >>> joined(list("abcab"), lambda a, b: {"ab": 1, "abc": 0}.get(a + b))
    ['abc', 'ab']
    """
    parts, last = list(parts), len(parts)
    before, behind = list(range(-1, last - 1)), list(range(1, last + 1))
    queue: list[tuple[float, int, str, str]] = []

    def offer(left: int) -> None:
        if left >= 0 and (right := behind[left]) < last:
            value = rank(parts[left], parts[right])
            if value is not None:
                heapq.heappush(queue, (value, left, parts[left], parts[right]))

    for left in range(last - 1):
        offer(left)
    while queue:
        _, left, first, second = heapq.heappop(queue)
        right = behind[left]
        if right >= last or (parts[left], parts[right]) != (first, second):
            continue  # one of the two was joined with another part since
        parts[left], parts[right] = first + second, ""
        behind[left] = behind[right]
        if behind[left] < last:
            before[behind[left]] = left
        offer(before[left])
        offer(left)
    return [part for part in parts if part]


def _cut(text: str, expression: str) -> list[str]:
    """The parts that match, and those between."""
    spans = (match.span() for match in re.finditer(expression, _classes(text)))
    ends = sorted({0, len(text), *chain.from_iterable(spans)})
    return [text[start:end] for start, end in pairwise(ends)]


def _classes(text: str) -> str:
    """The text with a letter, digit, space or sign of ASCII for each character beyond."""
    stand_ins = {"L": "a", "N": "0"}
    return "".join(
        c
        if c.isascii()
        else "\t"
        if c.isspace()
        else stand_ins.get(unicodedata.category(c)[0], "!")
        for c in text
    )


@cache
def _codes() -> dict[str, int]:
    """Bytes by what stands for them where pieces have ranks: signs of Latin-1 for themselves,
    characters from U+0100 on for others."""
    signs = {*range(33, 127), *range(161, 173), *range(174, 256)}
    others = iter(range(256, 512))
    return {chr(byte if byte in signs else next(others)): byte for byte in range(256)}


def _texts(about: Mapping[str, Any], key: str) -> list[str]:
    texts = about.get(key)
    if not isinstance(texts, list) or not all(isinstance(text, str) for text in texts):
        raise LoopwrightValueError(f"tokenizer.ggml.{key} is not a list of texts")
    return texts


def _numbers_of(about: Mapping[str, Any], key: str, count: int, default: int) -> Array:
    values = np.asarray(about.get(key, np.full(count, default)))
    if values.shape != (count,) or values.dtype.kind not in "iuf" or not np.isfinite(values).all():
        raise LoopwrightValueError(f"tokenizer.ggml.{key} is not a number for each token")
    return values
