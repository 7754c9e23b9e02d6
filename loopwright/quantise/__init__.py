"""``lw.quantize``: a float program becomes one on bytes, by what its values are on samples.

::

    module --prepared--> contractions with float32 operands: the sites (``sites``)
       |   --observe-->  least, greatest and histogram of what they multiply: the profile
       |   --ranges-->   a scale and a zero point each
       |   --rewritten-> nn.quantize and nn.dequantize around what is multiplied (``rewrite``)
       v
    the pass ``multiply_integers`` makes contractions of integers of it, as of any quantised model
"""
