"""Program IR: operations on memory, their order, and the place of every buffer.

The third language of the compiler: address-only instructions on typed regions, after the graph's
values have become buffers and before the whole becomes native code.

- ``nodes``      the grammar and the nodes; ``str(program)`` is the text
- ``parser``     the text read back
- ``verify``     what makes a program wrong: use after free, uninitialised reads, races, ...
- ``interpret``  runs a program on NumPy arrays: the meaning of the language
- ``analysis``   what every name stands for, who reads and writes it
- ``liveness``   what is read later, around loops and along branches
- ``pipeline``   the passes in their order: ``lifetimes``, ``copies``, ``order``, ``in_place``,
  ``reads_first``, ``coalesce``, ``updates``, ``registers``, ``planner``
"""
