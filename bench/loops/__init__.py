"""Programs whose course depends on values, beside numba, JAX, C and NumPy.

``programs`` has them, a file per family, and ``program`` says what one is; tests run the same ones
with small inputs. ``in_jax`` and ``in_c`` have what a user of JAX or of C writes otherwise, and
``peers`` calls each. ``steps`` measures what an iteration costs beside its work.
"""
