"""NumPy's functions on traced arrays, a chapter in each file."""
