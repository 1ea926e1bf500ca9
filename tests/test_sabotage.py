"""Faults of public implementations, injected into the learners: the papers' invariants must detect them."""

import importlib.util
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

import numpy as np
import pytest
from test_second_order_bound import forgetful_stream

import budgetron
from budgetron import SecondOrderProjectron, bounds, certify, streams
from budgetron.bounds import AssumptionError, second_order_gain
from budgetron.kernelized import _second_order

PACKAGE = Path(budgetron.__file__).parent
SHARE = 15 / 32

# For each fault: the module, the line to replace, and its replacement.
FAULTS = {
    "phi of 1.02": (
        "_forgetron",
        "        self.shrink(phi)  # f''_t = phi f'_t\n",
        "        self.shrink(1.02)\n",
    ),
    "the larger root of (43)": (
        "_forgetron",
        "        return largest_phi(fabs(self.weight(0)), mu, ",
        # With a < 0 in (44), the larger root is above 1, and phi is 1.
        "        if fabs(self.weight(0)) < 2.0 * mu:\n"
        "            return 1.0\n"
        "        return largest_phi(fabs(self.weight(0)), mu, ",
    ),
    "max for min in tau": (
        "_projectron",
        "return loss / square if loss < square else 1.0",
        "return loss / square if square > 0.0 and loss > square else 1.0",
    ),
    "a smaller r in the covariance": (
        "_second_order_rule",
        "self.gaussian_round.step(self._steps, noise, v,",
        "self.gaussian_round.step(self._steps, 0.5 * noise, v,",
    ),
    "a larger r in the covariance": (
        "_second_order_rule",
        "self.gaussian_round.step(self._steps, noise, v,",
        "self.gaussian_round.step(self._steps, 2.0 * noise, v,",
    ),
}


def build(folder, fault, name):
    """Compile a changed copy of a learner's module under another name, and import it.

    `fault` is the module, the text to replace, and its replacement. Modules without a folder are kernel
    learners.
    """
    for tool in ("cython", "cc"):
        if shutil.which(tool) is None:
            pytest.skip(f"{tool} is not on the path; it is needed to compile the fault")
    source, old, new = fault
    path = PACKAGE / f"{source}.py" if "/" in source else PACKAGE / "kernelized" / f"{source}.py"
    text = path.read_text()
    assert text.count(old) == 1, "the line to replace was not found"
    path = folder / f"{name}.py"
    path.write_text(text.replace(old, new))
    options = ["-X", "boundscheck=False", "-X", "wraparound=False", "-X", "freethreading_compatible=True"]
    include = [f"-I{PACKAGE.parent}", "-3", *options]
    subprocess.run([shutil.which("cython"), *include, path, "-o", folder / f"{name}.c"], check=True)
    library = folder / (name + sysconfig.get_config_var("EXT_SUFFIX"))
    headers = [f"-I{sysconfig.get_path('include')}", f"-I{np.get_include()}"]
    command = ["cc", "-shared", "-fPIC", "-O0", "-w", *headers, folder / f"{name}.c", "-o", library]
    if sys.platform == "darwin":
        command += ["-undefined", "dynamic_lookup"]
    subprocess.run(command, check=True)
    spec = importlib.util.spec_from_file_location(name, library)
    loaded = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(loaded)
    return loaded


def forgetron_violations(Forgetron):
    """Yield the invariants of the Forgetron paper that some runs violate."""
    for seed in range(6):
        X, y = streams.two_gaussians(400, 0.2, random_state=seed)
        for budget in (5, 20, 83):
            model = Forgetron(budget, gamma=0.5)
            trace = model.progressive_fit(X, y, ledger=True)
            ledger, mistakes = trace.ledger, np.cumsum(trace.mistakes)
            if np.any(ledger["Q"] + np.nan_to_num(ledger["psi"]) > SHARE * mistakes + 1e-9):
                yield "(41)"
            phi = ledger["phi"][trace.mistakes]
            norms = np.concatenate([[0.0], ledger["norm"]])
            # ||f'_t||^2
            before = norms[:-1][trace.mistakes] ** 2 + 2 * (trace.margins * y)[trace.mistakes] + 1
            # Where no support was removed, ||f|| = phi ||f'||
            none_removed = ledger["removed"][trace.mistakes] < 0
            if not np.allclose(
                norms[1:][trace.mistakes][none_removed],
                phi[none_removed] * np.sqrt(np.maximum(before[none_removed], 0)),
            ):
                yield "||phi f'||"
            if np.any(phi <= 0) or np.any(phi > 1):
                yield "0 < phi <= 1"
            if np.any(np.abs(model.dual_coef_) > 1 + 1e-12):
                yield "a coefficient above 1"


def projectron_violations(ProjectronPlusPlus):
    """Yield the invariants of the Projectron paper that some runs violate."""
    for seed in range(6):
        X, y = streams.two_gaussians(400, 0.2, random_state=seed)
        model = ProjectronPlusPlus(2.0, gamma=0.5)
        trace = model.progressive_fit(X, y, ledger=True)
        tau, beta = trace.ledger["tau"], trace.ledger["beta"]
        if np.any(tau > 1):
            yield "tau <= 1"
        # (17) maximizes beta among all tau up to 1
        loss, updated = 1 - y * trace.margins, ~np.isnan(beta) & (tau > 0)
        square = 1 - trace.ledger["delta"] ** 2
        best = np.minimum(1.0, loss / np.maximum(square, 1e-300))
        if not np.allclose(tau[updated & ~trace.mistakes], best[updated & ~trace.mistakes]):
            yield "(17)"


def second_order_violations(SecondOrderProjectron):
    """Yield the steps of the proof for second-order learners that some runs violate."""
    for seed in range(6):
        X, y = streams.two_gaussians(400, 0.2, random_state=seed)
        for r in (0.1, 1.0):
            # Without supports the images are the rows, so that w' L w can be computed from f alone.
            model = SecondOrderProjectron(10, threshold=10.0, r=r, gamma=0.5)
            trace = model.progressive_fit(X, y, ledger=True)
            learned = ~np.isnan(trace.ledger["tau"])
            gain = second_order_gain((y * trace.margins)[learned], trace.ledger["variance"][learned], r)
            values = model.decision_function(X)[learned]
            if not np.isclose(gain, r * trace.ledger["norm"][-1] ** 2 + values @ values, rtol=1e-6):
                yield "w' L w = G"
            if len(list(certificate_violations(SecondOrderProjectron(20, r=r, gamma=0.5), X, y))):
                yield "the bound"


def certificate_violations(model, X, y, competitor="best", theorem="second_order"):
    """Yield the reason if the certificate of a run does not hold."""
    trace = model.progressive_fit(X, y, ledger=True)
    try:
        certificate = certify(model, X, y, trace, competitor, theorem=theorem)
    except AssumptionError as error:  # a negative gain
        yield str(error)
    else:
        if not certificate.holds:
            yield str(certificate)


CHECKS = {
    "_second_order_rule": ("SecondOrderRule", second_order_violations),
    "_forgetron": ("Forgetron", forgetron_violations),
    "_projectron": ("ProjectronPlusPlus", projectron_violations),
}


def test_the_learners_violate_no_invariant():
    assert list(forgetron_violations(budgetron.Forgetron)) == []
    assert list(projectron_violations(budgetron.ProjectronPlusPlus)) == []
    assert list(second_order_violations(budgetron.SecondOrderProjectron)) == []


@pytest.mark.parametrize("fault", FAULTS)
def test_every_fault_violates_an_invariant(fault, tmp_path, monkeypatch):
    name, violations_of = CHECKS[FAULTS[fault][0]]
    faulty = build(tmp_path, FAULTS[fault], "faulty_" + "".join(filter(str.isalnum, fault)))
    changed = getattr(faulty, name)
    if name == "SecondOrderRule":  # the rule and its learner are in different modules
        monkeypatch.setattr(_second_order, name, changed)
        changed = SecondOrderProjectron
    violations = list(violations_of(changed))
    print(fault, sorted(set(violations)), len(violations))
    assert violations


def test_a_bound_without_its_term_is_violated(monkeypatch):
    """The terms of the distances and of exchanged supports are left out of the bound, one at a time."""
    X, y = forgetful_stream(4, 40)
    competitor = np.eye(8)[:4], np.array([1.0, -1.0, 1.0, -1.0])
    without_supports = {"threshold": 1.5, "linear": False, "kernel": "linear"}
    runs = {
        "exchange": (SecondOrderProjectron(4, linear=False, kernel="linear"), "second_order"),
        "distance": (SecondOrderProjectron(4, **without_supports), "second_order_rows"),
    }
    for model, theorem in runs.values():
        assert not list(certificate_violations(model, X, y, competitor, theorem))
    images, rows = bounds.second_order, bounds.second_order_rows
    faults = {
        "exchange": ("second_order", lambda *a, **k: images(*a[:7], 0.0, *a[8:], **k)),
        "distance": ("second_order_rows", lambda *a, **k: rows(*a[:5], [], *a[6:], **k)),
    }
    for name, (function, faulty) in faults.items():
        with monkeypatch.context() as patched:
            patched.setattr(bounds, function, faulty)
            model, theorem = runs[name]
            model = model.__class__(**model.get_params())
            assert list(certificate_violations(model, X, y, competitor, theorem)), name
