"""Run sequences of one variant, with hypothesis or as one number of a long run."""

from adapter_machine import AdapterMachine
from algorithm_machine import AlgorithmMachine
from classifier_machine import ClassifierMachine
from detector_machine import DetectorMachine
from fleet_machine import FleetMachine
from hypothesis import HealthCheck, Phase, Verbosity, seed, settings
from hypothesis.stateful import run_state_machine_as_test
from models import VARIANTS
from regressor_machine import RegressorMachine

MACHINES = {
    "classifier": ClassifierMachine,
    "algorithm": AlgorithmMachine,
    "adapter": AdapterMachine,
    "fleet": FleetMachine,
    "regressor": RegressorMachine,
    "detector": DetectorMachine,
}


def machine_of(name):
    """Return the machine that attacks a variant."""
    variant = VARIANTS[name]
    base = MACHINES[variant.family]
    return type(base.__name__, (base,), {"variant": variant})


def run_sequences(name, number, count, steps, *, shrink=False):
    """Run sequences that depend on the name and the number only; raise what the first failure raised."""
    phases = [Phase.generate, Phase.shrink] if shrink else [Phase.generate]
    options = settings(
        max_examples=count,
        stateful_step_count=steps,
        derandomize=False,
        database=None,
        deadline=None,
        phases=phases,
        report_multiple_bugs=False,
        suppress_health_check=list(HealthCheck),
        verbosity=Verbosity.normal,
    )
    run_state_machine_as_test(seed(f"{name} {number}")(machine_of(name)), settings=options)
