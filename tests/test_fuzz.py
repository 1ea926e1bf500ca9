"""Some of the attacks on model files; `fuzz_files.py` has as many as one likes."""

from fuzz_files import run


def test_attacks_on_model_files():
    outcomes, failures = run(1500, seed=1)
    assert not failures, "\n".join(f"--replay 1 {number}: {wrong}" for number, wrong in failures.items())
    assert outcomes["refused"] > 750  # neither all sound
    assert outcomes["used"] > 100  # nor all broken
