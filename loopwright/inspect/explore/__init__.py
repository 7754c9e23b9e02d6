"""The page of a compiled function: every level beside the others, each line lit with its kin.

::

    origins     which statements a line of LLVM text and of assembly computes
    levels      a build's levels as lines, each with the lines of the user's that it comes from
    collect     levels, times, limits and what the search tried             -> the page's data
    page        all of it as one HTML page   style   how it looks   script   what it does
"""
