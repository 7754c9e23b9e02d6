"""Language models that write: GPT-2's and Llama's decoder, from the prompt to the last token.

models      the two models in NumPy style, which read and write a cache of keys and values
few_bits    their weights in 16, 8 or 4 bits
files       Llamas from GGUF files, and their tokens
generate    compiled functions for a prompt, a token and a whole answer; how tokens are chosen
__main__    the demo: python -m examples.decoder --help
"""

from .few_bits import KINDS, narrowed, widened
from .files import Vocabulary, read_gguf
from .generate import Decoder, greedy, sampler
from .models import GPT2, GPT2_SMALL, SMALL_LLAMA, Llama, Sizes, empty_cache, random_weights

__all__ = [
    "GPT2",
    "GPT2_SMALL",
    "KINDS",
    "SMALL_LLAMA",
    "Decoder",
    "Llama",
    "Sizes",
    "Vocabulary",
    "empty_cache",
    "greedy",
    "narrowed",
    "random_weights",
    "read_gguf",
    "sampler",
    "widened",
]
