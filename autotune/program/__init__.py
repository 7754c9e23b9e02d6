"""Tuning all kernels of a program: what to spend the next seconds on, here or in the background."""
