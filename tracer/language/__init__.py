"""Programs of the graph language on traced values: with data types, functions as values and
references, they become plain graphs by being run while tracing."""
