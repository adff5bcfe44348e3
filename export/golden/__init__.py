"""Golden cases: what a paper's own program answered, checked against this product's code.

`case` reads them, `runners` picks the code for a case's system, `compare` decides whether two outputs agree.
"""
