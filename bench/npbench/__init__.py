"""NPBench: NumPy programs of high-performance computing, unchanged but for the compiler's name."""
