"""The user's `if`, `while` and `for`, rewritten for an error's hint."""
