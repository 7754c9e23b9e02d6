"""Deriving the coefficients of the elementary functions, and measuring their errors."""
