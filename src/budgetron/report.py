"""An HTML page about a comparison: a summary, then tables, plots and certificates.

The page is a single HTML file without scripts that loads nothing from the network. Its layout fits phones,
desktop screens and paper. The plots need matplotlib.
"""

from budgetron._reporting.report import render, write

__all__ = ["render", "write"]
