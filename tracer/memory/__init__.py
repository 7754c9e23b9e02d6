"""Memory that traced arrays share: storages, views, and reads and writes of their elements."""
