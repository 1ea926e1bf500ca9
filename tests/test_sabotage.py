"""Faults that public implementations have, put into ours on purpose: the invariants must notice."""

import importlib.util
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

import numpy as np
import pytest

import budgetron
from budgetron import streams

PACKAGE = Path(budgetron.__file__).parent
SHARE = 15 / 32

# The module, what is replaced in it, and by what.
FAULTS = {
    "phi of 1.02": (
        "_forgetron",
        "        self.shrink(phi)  # f''_t = phi f'_t\n",
        "        self.shrink(1.02)\n",
    ),
    "the larger root of (43)": (
        "_forgetron",
        "        phi = -2.0 * c / (b + root(d))",
        "        phi = (-b - root(d)) / (2.0 * a) if a < 0.0 else -2.0 * c / (b + root(d))",
    ),
    "max for min in tau": (
        "_projectron",
        "return loss / square if loss < square else 1.0",
        "return loss / square if square > 0.0 and loss > square else 1.0",
    ),
}


def build(folder, module, name):
    """Compile the source of a learner's module, changed, under another name."""
    for tool in ("cython", "cc"):
        if shutil.which(tool) is None:
            pytest.skip(f"{tool} is not on the path, and the fault must be compiled")
    source, old, new = module
    text = (PACKAGE / "kernelized" / f"{source}.py").read_text()
    assert text.count(old) == 1, "the line to sabotage is not there"
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


def forgetron_complaints(Forgetron):
    """What the proof of 003 would say of these runs."""
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
            before = (
                norms[:-1][trace.mistakes] ** 2 + 2 * (trace.margins * y)[trace.mistakes] + 1
            )  # ||f'_t||^2
            kept = ledger["removed"][trace.mistakes] < 0  # where nothing left, ||f|| = phi ||f'||
            if not np.allclose(
                norms[1:][trace.mistakes][kept], phi[kept] * np.sqrt(np.maximum(before[kept], 0))
            ):
                yield "||phi f'||"
            if np.any(phi <= 0) or np.any(phi > 1):
                yield "0 < phi <= 1"
            if np.any(np.abs(model.dual_coef_) > 1 + 1e-12):
                yield "a coefficient above 1"


def projectron_complaints(ProjectronPlusPlus):
    for seed in range(6):
        X, y = streams.two_gaussians(400, 0.2, random_state=seed)
        model = ProjectronPlusPlus(2.0, gamma=0.5)
        trace = model.progressive_fit(X, y, ledger=True)
        tau, beta = trace.ledger["tau"], trace.ledger["beta"]
        if np.any(tau > 1):
            yield "tau <= 1"
        # (17) maximizes beta among all tau up to 1
        loss, unsure = 1 - y * trace.margins, ~np.isnan(beta) & (tau > 0)
        square = 1 - trace.ledger["delta"] ** 2
        best = np.minimum(1.0, loss / np.maximum(square, 1e-300))
        if not np.allclose(tau[unsure & ~trace.mistakes], best[unsure & ~trace.mistakes]):
            yield "(17)"


COMPLAINTS = {
    "_forgetron": ("Forgetron", forgetron_complaints),
    "_projectron": ("ProjectronPlusPlus", projectron_complaints),
}


def test_the_honest_learners_are_not_complained_of():
    assert list(forgetron_complaints(budgetron.Forgetron)) == []
    assert list(projectron_complaints(budgetron.ProjectronPlusPlus)) == []


@pytest.mark.parametrize("fault", FAULTS)
def test_faults_are_noticed(fault, tmp_path):
    name, complain = COMPLAINTS[FAULTS[fault][0]]
    faulty = build(tmp_path, FAULTS[fault], "faulty_" + "".join(filter(str.isalnum, fault)))
    complaints = list(complain(getattr(faulty, name)))
    print(fault, sorted(set(complaints)), len(complaints))
    assert complaints
