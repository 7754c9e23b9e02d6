"""``f.tune``: a program's kernels and the choices in its graph, searched, compared and kept.

``tune`` has the stages in their order; ``graph_choices`` and ``variants`` compare ways through the
graph, ``last_comparison`` the program before and after.
"""
