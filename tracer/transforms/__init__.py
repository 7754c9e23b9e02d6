"""Transformations of functions inside of a trace: derivatives and batching.

A function is traced into a block of its own (``block.py``), the block is transformed as a graph,
and what comes of it is a part of the trace. So transformations nest, and what they make is
optimised like anything else.
"""
