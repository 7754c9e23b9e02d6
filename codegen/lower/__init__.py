"""From a loop nest to one that says how a target runs it, by passes from nest to nest.

``carried`` begins sums in front of loops, ``registers`` says what private buffers are held in,
``vectors`` in what vectors loops run, ``shuffles`` which blocks are stored transposed, ``rolled``
which loops are no longer unrolled, ``joined`` which vectors are computed together; ``lowering``
lists them. What they make prints, parses, is verified and interpreted as any nest;
``codegen.emit`` writes what it says.
"""
