"""A compiled model behind an ASGI server, with requests gathered into batches."""
