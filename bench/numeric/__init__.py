"""The programs of ``examples/numeric`` beside NumPy and JAX.

``programs`` lists them, and ``in_jax`` has what a user of JAX writes otherwise: what changes arrays
in place. Processes, peers and rounds are those of ``bench.loops``.
"""
