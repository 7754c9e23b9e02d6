"""Derivatives of graphs: forward mode, and its transpose, which is reverse mode.

``forward.py`` goes through a block and emits the *tangent* of every value beside it: how the value
changes with the inputs, which is linear in the inputs' tangents. ``linearise.py`` separates what is
linear from the rest, and keeps what loops and branches hand from one to the other. ``transpose.py``
runs the linear part backward, from the *cotangents* of its results to those of the inputs (Radul,
Paszke, Frostig, Johnson, Maclaurin: "You only linearize once", 2022).

What an operator is in both directions stands in its declaration, and is mostly derived from it
(``rules.py``). A tangent that is certainly 0 is None, so no zeros are computed with.
"""
