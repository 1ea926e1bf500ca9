"""Tools that know nothing of learners: atomic writes, interrupts, units, threads, checks of values.

Internal. Any other package may import it; it imports nothing of Budgetron.
"""
