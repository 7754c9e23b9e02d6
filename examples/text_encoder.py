"""A text encoder in PyTorch: trained and used through Loopwright, and what it has learnt.

A transformer of two layers learns from a few thousand made-up sentences which topic each is about.
Training runs its forward and backward graphs through ``torch.compile(backend="loopwright")``; then
``lw.from_torch`` compiles the encoder alone, and a table shows how near sentences come to each
other that were not among those it was trained on.

    pip install "loopwright[torch]"
    python -m examples.text_encoder [--steps 60]
"""

from __future__ import annotations

import argparse
import random
import time
from collections.abc import Sequence

import loopwright as lw
import numpy as np
import torch
from torch import Tensor, nn

WORDS = 10  # of a sentence; shorter ones are padded

# Subjects, verbs and objects of each topic. Some words are of several, so that no word alone tells.
TOPICS = {
    "kitchen": ("cook chef mother guest", "fries bakes eats tries", "fish bread soup apples"),
    "music": ("singer band mother guest", "plays hears sings tries", "songs bass scales jazz"),
    "sea": ("captain diver crew guest", "sees sails meets hears", "fish waves bass ships"),
    "garden": (
        "farmer gardener crew mother",
        "plants waters sees eats",
        "apples roses trees beans",
    ),
}
PLACES = "today slowly again in the evening|with great care|after a long day|at home|again"

UNSEEN = (
    "the singer hears jazz",
    "a band plays slow songs",
    "the captain meets waves",
    "a diver sees big ships",
    "the chef bakes bread",
    "a cook tries the soup",
    "the gardener waters roses",
    "a farmer plants old trees",
)


class Encoder(nn.Module):
    """int64[n, WORDS] words -> float32[n, width]: the mean of the last layer, of length 1."""

    def __init__(self, words: int, width: int = 64, heads: int = 4, layers: int = 2) -> None:
        super().__init__()
        self.words = nn.Embedding(words, width)
        self.places = nn.Parameter(0.1 * torch.randn(WORDS, width))
        self.layers = nn.ModuleList(Layer(width, heads) for _ in range(layers))

    def forward(self, tokens: Tensor) -> Tensor:
        present = (tokens > 0).to(self.places.dtype)
        x = self.words(tokens) + self.places
        for layer in self.layers:
            x = layer(x, present)
        mean = (x * present[..., None]).sum(1) / present.sum(1, keepdim=True)
        return nn.functional.normalize(mean, dim=-1)


class Layer(nn.Module):
    """Attention and a perceptron, each added to what it is given normalised."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.mlp = nn.Sequential(
            nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width)
        )

    def forward(self, x: Tensor, present: Tensor) -> Tensor:
        n, words, width = x.shape
        parts = self.qkv(self.norm1(x)).reshape(n, words, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        mask = (present > 0)[:, None, None, :]
        mixed = nn.functional.scaled_dot_product_attention(*parts, attn_mask=mask)
        x = x + self.out(mixed.transpose(1, 2).reshape(n, words, width))
        return x + self.mlp(self.norm2(x))


class Classifier(nn.Module):
    """Scores of the topics for the sentences that an encoder has read."""

    def __init__(self, encoder: Encoder) -> None:
        super().__init__()
        self.encoder, self.topics = encoder, nn.Linear(64, len(TOPICS))

    def forward(self, tokens: Tensor) -> Tensor:
        return self.topics(8 * self.encoder(tokens))


def sentences(count: int, rng: random.Random) -> list[tuple[str, int]]:
    """Returns made-up sentences, and the number of the topic of each."""
    found: list[tuple[str, int]] = []
    while len(found) < count:
        topic = rng.randrange(len(TOPICS))
        subject, verb, thing = (rng.choice(w.split()) for w in list(TOPICS.values())[topic])
        text = (
            f"{rng.choice(['the', 'a'])} {subject} {verb} {rng.choice(['', 'big', 'old', 'slow'])}"
        )
        text = " ".join(f"{text} {thing} {rng.choice(PLACES.split('|'))}".split())
        if not any(text.startswith(known) for known in UNSEEN):
            found.append((text, topic))
    return found


def vocabulary() -> dict[str, int]:
    """Returns the numbers of all words; 0 is for padding."""
    parts = [*TOPICS.values(), (PLACES.replace("|", " "), "the a big old slow", "")]
    words = sorted({word for part in parts for text in part for word in text.split()})
    return {word: number for number, word in enumerate(words, start=1)}


def encoded(texts: Sequence[str], words: dict[str, int]) -> Tensor:
    """int64[len(texts), WORDS]."""
    rows = [[words[w] for w in text.split()][:WORDS] for text in texts]
    return torch.tensor([row + [0] * (WORDS - len(row)) for row in rows])


def train(model: nn.Module, words: dict[str, int], steps: int) -> list[float]:
    """Trains by Adam on batches of 64 new sentences; returns the losses."""
    rng = random.Random(0)
    compiled = torch.compile(model, backend="loopwright")
    optimiser = torch.optim.Adam(model.parameters(), lr=2e-3)
    losses: list[float] = []
    for _ in range(steps):
        texts, topics = zip(*sentences(64, rng), strict=True)
        loss = nn.functional.cross_entropy(compiled(encoded(texts, words)), torch.tensor(topics))
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        losses.append(loss.item())
    return losses


def table(texts: Sequence[str], vectors: np.ndarray) -> str:
    """Returns the cosines between all pairs of sentences."""
    width = max(map(len, texts))
    lines = [" " * (width + 5) + "".join(f"{n + 1:>7}" for n in range(len(texts)))]
    for number, (text, row) in enumerate(zip(texts, vectors @ vectors.T, strict=True)):
        lines.append(f"{number + 1:>2}  {text:<{width}} " + "".join(f"{v:7.2f}" for v in row))
    return "\n".join(lines)


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the example; the exit status is 1 if it has not learnt its topics."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=60, help="batches to train on (60)")
    steps = parser.parse_args(argv).steps
    torch.manual_seed(0)
    words = vocabulary()
    model = Classifier(Encoder(len(words) + 1))
    start = time.perf_counter()
    losses = train(model, words, steps)
    seconds = time.perf_counter() - start
    print(f"{steps} steps in {seconds:.1f} s, compiling included:", end=" ")
    print(f"loss {losses[0]:.2f} -> {losses[-1]:.2f}")
    tokens = encoded(UNSEEN, words)
    encode = lw.from_torch(model.encoder.eval(), (tokens,))
    vectors = encode(tokens).numpy()
    with torch.no_grad():
        wrong = float((model.encoder(tokens) - torch.from_numpy(vectors)).abs().max())
    print(f"how near sentences are that it has not seen (off from torch's by {wrong:.1e}):")
    print(table(UNSEEN, vectors))
    near = vectors @ vectors.T - 2 * np.eye(len(UNSEEN))
    paired = near.argmax(1) == np.arange(len(UNSEEN)) ^ 1  # they come in pairs of one topic
    print(f"the nearest is of the same topic for {paired.sum()} of {len(UNSEEN)}")
    return 0 if paired.all() else 1


if __name__ == "__main__":
    raise SystemExit(main())
