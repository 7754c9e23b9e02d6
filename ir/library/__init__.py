"""Functions of libraries that programs call: LAPACK and FFT through NumPy, and users' own."""
