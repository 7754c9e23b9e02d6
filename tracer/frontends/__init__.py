"""Other ways in than Python functions: readers of models. Each is an extra with its own library."""
