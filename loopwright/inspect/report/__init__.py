"""The report of a tuning log: one page that needs nothing but itself.

::

    collect     what a log says of each kernel, read once             -> Report
    worth       what each decision of a winner was worth
    measuring   what the log does not have, measured now
    charts      pictures of it as SVG       nests   loop nests with their words coloured
    page        all of it as one HTML page  style   how it looks, and the little it does by itself
"""
