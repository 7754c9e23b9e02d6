"""Other ways in than Python functions: readers of model files will stand here."""
