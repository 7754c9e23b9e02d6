"""Decoders that write: GPT-2's and Llama's, from the prompt to the last token.

``loopwright generate model.gguf "text"`` writes with the Llama of a file; here are besides it

models      GPT-2 in NumPy style, and random weights
few_bits    weights in 16, 8 or 4 bits
generate    compiled functions for a whole answer
speculative a narrow draft guesses tokens, and the model reads them as one block
__main__    the demo: python -m examples.decoder --help
"""

from .few_bits import KINDS, narrowed, widened
from .generate import Answerer
from .models import GPT2, GPT2_SMALL, SMALL_LLAMA, loaded_llama, random_weights
from .speculative import Speculator

__all__ = [
    "GPT2",
    "GPT2_SMALL",
    "KINDS",
    "SMALL_LLAMA",
    "Answerer",
    "Speculator",
    "loaded_llama",
    "narrowed",
    "random_weights",
    "widened",
]
