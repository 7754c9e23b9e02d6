"""The operators: one definition each, in one place."""

from .registry import Attr, Operator, Pattern, Sample, all_operators, get, register

__all__ = ["Attr", "Operator", "Pattern", "Sample", "all_operators", "get", "register"]
