"""Each learner against its slow literal reference, round by round."""

import copy

import numpy as np
import pytest
from cases import CASES, STREAMS, gram_of, stream, with_budget
from reference import KERNELS
from scipy.sparse import csr_array

TIE = 1e-10


def replay(case, name, kernel, n=240, tie=TIE, seed=0):
    """The reference's run: the rounds kept, what it saw in each, and its end.

    A round that comes within `tie` of deciding otherwise is left out of the stream, for
    both; rounding alone would decide it.
    """
    X, y = stream(name, n, seed)
    K = gram_of(name, kernel, n, seed)
    reference = case.start_reference(K, y)
    kept, margins, sizes, ledger = [], [], [], []
    for t in range(n):
        attempt = copy.copy(reference)
        attempt.alpha = dict(reference.alpha)
        attempt.rng = copy.deepcopy(getattr(reference, "rng", None))
        attempt.asked = list(getattr(reference, "asked", []))
        margin = attempt.play(t)
        if attempt.gap < tie:
            continue
        reference = attempt
        kept.append(t)
        margins.append(margin)
        sizes.append(len(reference.alpha))
        ledger.append(reference.entry)
    kept = np.array(kept)
    return X[kept], y[kept], kept, np.array(margins), np.array(sizes), ledger, reference


def assert_same(model, trace, run, tolerance=1e-9, ledger_tolerance=1e-8):
    X, y, kept, margins, sizes, ledger, reference = run
    position = {t: i for i, t in enumerate(kept.tolist())}
    scale = max(1.0, np.abs(margins).max())
    np.testing.assert_allclose(trace.margins, margins, rtol=tolerance, atol=tolerance * scale)
    np.testing.assert_array_equal(trace.mistakes, y * margins <= 0)
    np.testing.assert_array_equal(trace.support_sizes, sizes)
    np.testing.assert_array_equal(model.support_, [position[t] for t in reference.alpha])
    np.testing.assert_array_equal(model.support_vectors_, X[model.support_].astype(trace_dtype(model)))
    coef = np.array(list(reference.alpha.values()))
    np.testing.assert_allclose(model.dual_coef_[0], coef, rtol=tolerance, atol=tolerance)
    assert model.mistakes_ == reference.mistakes
    assert model.rounds_ == len(y)
    assert set(trace.ledger) == set(reference.names)
    for name in reference.names:
        expected = np.array([entry[name] for entry in ledger])
        if name == "removed":
            expected = [position.get(t, -1) for t in expected]
            np.testing.assert_array_equal(trace.ledger[name], expected, err_msg=name)
        else:
            actual, power = trace.ledger[name], 2 if name in ("norm", "delta") else 1
            # A norm is the root of a sum that may cancel: its square is what can be compared near 0.
            np.testing.assert_allclose(
                actual**power,
                expected**power,
                rtol=ledger_tolerance,
                atol=ledger_tolerance * scale if power == 1 else ledger_tolerance / 100 * scale**2,
                err_msg=name,
            )


def trace_dtype(model):
    return model.support_vectors_.dtype


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("name", STREAMS)
@pytest.mark.parametrize("label", CASES)
def test_equals_reference(label, name, kernel, record_property):
    case = CASES[label]
    run = replay(case, name, kernel)
    record_property("ties left out", 240 - len(run[2]))
    assert len(run[2]) > 60
    model = case.model(kernel)
    trace = model.progressive_fit(run[0], run[1], classes=[-1, 1], ledger=True)
    assert_same(model, trace, run)
