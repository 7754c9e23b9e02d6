"""Digests tell contents apart, whatever the machine and the pieces."""

import numpy as np
import pytest
from loopwright.codegen.digest import STRIPE, Digest
from loopwright.codegen.target import Target

DATA = np.random.default_rng(3).integers(0, 256, 5 * STRIPE + 77, np.uint8)


def digest_of(*pieces: np.ndarray) -> str:
    digest = Digest()
    for piece in pieces:
        digest.update(piece.data)
    return digest.hexdigest()


def test_every_change_of_a_bit_shows() -> None:
    digests = {digest_of(DATA)}
    for at in range(len(DATA)):
        changed = DATA.copy()
        changed[at] ^= 1 << at % 8
        digests.add(digest_of(changed))
    assert len(digests) == len(DATA) + 1


def test_order_and_pieces() -> None:
    words = np.arange(64, dtype=np.uint64)
    for other in (words[::-1], np.roll(words, 32), np.roll(words, 1)):
        assert digest_of(words.view(np.uint8)) != digest_of(other.copy().view(np.uint8))
    assert digest_of(DATA[: 2 * STRIPE], DATA[2 * STRIPE :]) == digest_of(DATA)
    shifted = np.concatenate([DATA[:3], DATA])[3:]  # at an odd address
    assert digest_of(shifted) == digest_of(DATA)


@pytest.mark.parametrize("isa", ["x86-64", "x86-64-v3"])
def test_a_digest_does_not_depend_on_the_machine(isa: str, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = digest_of(DATA)
    monkeypatch.setattr(Target, "host", lambda: Target(isa=isa))
    assert digest_of(DATA) == expected
