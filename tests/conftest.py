import sys
from pathlib import Path

from hypothesis import settings

sys.path.insert(0, str(Path(__file__).parent))

# Machines are noisy: a slow example is no failure.
settings.register_profile("budgetron", deadline=None, derandomize=True)
settings.load_profile("budgetron")
