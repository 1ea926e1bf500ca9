"""Feature scales for the "rbf" kernel from labelled rows, by automatic relevance determination.

Features that separate the classes, or explain the targets, get scales above 1, irrelevant ones get scales
below 1. The scales maximize the marginal likelihood of Gaussian process regression on the labels, together
with a prior that keeps them near 1.
"""

from budgetron.relevance._scales import bytes_needed, feature_scales

__all__ = ["bytes_needed", "feature_scales"]
