"""Measuring on other machines.

- ``station``: what a host does with a request, ``remote`` the measurer that asks.
- ``dask_cluster``: the workers of a Dask cluster as hosts.
- ``runners``: hosts that ``loopwright runner`` serves (``service``), over connections of which
  either end has proved that it has the key (``wire``).
"""
