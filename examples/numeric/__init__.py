"""Small numeric programs as textbooks have them: NumPy, compiled. ``python -m bench.numeric`` times
them; each is a program of its own: ``python -m examples.numeric.k_means``."""
