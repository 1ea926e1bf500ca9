"""One page about a comparison: the answer first, then tables, pictures and certificates.

The page is a single HTML file that needs nothing else: no network, no scripts. It reads well
on a phone, on a desk and on paper. The pictures need matplotlib.
"""

from budgetron._reporting.report import render, write

__all__ = ["render", "write"]
