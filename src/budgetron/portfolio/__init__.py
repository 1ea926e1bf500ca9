"""The learner that needs no choice: experts of every kind in one memory."""

from budgetron.portfolio._classifier import BudgetClassifier
from budgetron.portfolio._experts import Plan

__all__ = ["BudgetClassifier", "Plan"]
