"""Python control flow that waits for traced values, captured from the source of functions."""
