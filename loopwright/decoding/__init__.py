"""Language models that write text, read from GGUF files: ``lw.load_language_model``.

::

    gguf_model   a file's metadata and tensors, checked, as a Llama
    vocabulary   texts to tokens and back, by scores or by merges
    llama        the decoder in NumPy style, which reads and writes a cache of keys and values
    decoder      compiled functions for a block of the prompt, a token and a whole answer
    language_model  from a text to what follows it
"""
