"""Tools that know nothing of learners: atomic writes, interrupts, units, memory, threads, checks.

Internal. Any other package may import it; it imports nothing of Budgetron.
"""
