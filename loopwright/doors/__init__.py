"""Models of other libraries come in here, and compiled programs leave as files."""
