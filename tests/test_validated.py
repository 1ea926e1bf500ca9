"""Arrays that need no conversion skip scikit-learn's checks, with the same results and the same errors."""

from contextlib import nullcontext

import numpy as np
import pandas as pd
import pytest
from scipy import sparse

import budgetron
from budgetron._base import batches

RNG = np.random.default_rng(0)
ROWS = RNG.normal(size=(6, 3))
LABELS = np.array([0, 1, 0, 1, 1, 0])
NAN, INFINITE = ROWS.copy(), ROWS.copy()
NAN[2, 1], INFINITE[4, 0] = np.nan, np.inf


def with_long_indices(X):
    X.indices, X.indptr = X.indices.astype(np.int64), X.indptr.astype(np.int64)
    return X


CASES = {
    "plain": (ROWS, LABELS),
    "labels as a list": (ROWS, LABELS.tolist()),
    "labels as floats": (ROWS, LABELS.astype(float)),
    "labels as a column": (ROWS, LABELS.reshape(-1, 1)),
    "labels with NaN": (ROWS, np.array([0, 1, np.nan, 1, 1, 0])),
    "too few labels": (ROWS, LABELS[:-1]),
    "no rows": (ROWS[:0], LABELS[:0]),
    "one row as a vector": (ROWS[0], LABELS[:1]),
    "three dimensions": (ROWS[None], LABELS[:1]),
    "more columns": (np.hstack([ROWS, ROWS]), LABELS),
    "Fortran order": (np.asfortranarray(ROWS), LABELS),
    "float32": (ROWS.astype(np.float32), LABELS),
    "big-endian": (ROWS.astype(">f8"), LABELS),
    "integers": (ROWS.round().astype(int), LABELS),
    "a frame": (pd.DataFrame(ROWS, columns=list("abc")), LABELS),
    "a masked array": (np.ma.masked_array(ROWS), LABELS),
    "NaN": (NAN, LABELS),
    "infinity": (INFINITE, LABELS),
}
TWICE = sparse.csr_matrix((np.ones(4), [2, 0, 0, 1], [0, 3, 4, 4, 4, 4, 4]), shape=(6, 3))  # in no order
BAD = sparse.csr_matrix(ROWS)
BAD.indices[4] = 7
LIKE_DENSE = ("plain", "labels as a list", "labels with NaN", "too few labels", "more columns", "float32")
LIKE_DENSE += ("integers", "NaN", "infinity")
CASES |= {f"CSR, {name}": (sparse.csr_matrix(CASES[name][0]), CASES[name][1]) for name in LIKE_DENSE}
CASES |= {
    "a CSR array": (sparse.csr_array(ROWS), LABELS),
    "CSC": (sparse.csc_matrix(ROWS), LABELS),
    "CSR without rows": (sparse.csr_matrix((0, 3)), LABELS[:0]),
    "CSR without values": (sparse.csr_matrix((6, 3)), LABELS),
    "CSR with values twice and in no order": (TWICE, LABELS),
    "CSR with a bad index": (BAD, LABELS),
    "CSR with long indices": (with_long_indices(sparse.csr_matrix(ROWS)), LABELS),
}


def outcome(name, checked, names=None, first=False):
    """Return what learning a batch, perhaps the first one, gives: the state as bytes, or the error."""
    X, y = CASES[name]
    with pytest.MonkeyPatch.context() as patch:
        if not checked:
            patch.setattr(batches, "_need_no_conversion", lambda *given, **options: False)
        model = budgetron.SecondOrderProjectron(budget=4)
        start = ROWS if names is None else pd.DataFrame(ROWS, columns=names)
        with pytest.warns(UserWarning, match="feature names") if names else nullcontext():
            if not first:
                model.partial_fit(start, LABELS, classes=[0, 1])
            try:
                model.partial_fit(X, y, classes=[0, 1])
                values = model.decision_function(X).tolist()
            except ValueError as error:
                return type(error), str(error)
    return budgetron.files.to_bytes(model), values


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("first", [False, True])
@pytest.mark.parametrize("name", CASES)
def test_results_and_errors_are_those_of_scikit_learn(name, first):
    assert outcome(name, True, first=first) == outcome(name, False, first=first)


def test_arrays_without_the_names_of_the_columns_still_cause_a_warning():
    assert outcome("plain", True, list("abc")) == outcome("plain", False, list("abc"))


def test_the_names_of_an_earlier_fit_are_forgotten():
    model = budgetron.SecondOrderProjectron(budget=4).fit(pd.DataFrame(ROWS, columns=list("abc")), LABELS)
    assert list(model.feature_names_in_) == list("abc")
    model.fit(ROWS[:, :2].copy(), LABELS)
    assert not hasattr(model, "feature_names_in_")
    assert model.n_features_in_ == 2
    model.fit(ROWS, LABELS)
    assert model.n_features_in_ == 3


def test_plain_arrays_are_not_checked_by_scikit_learn(monkeypatch):
    monkeypatch.setattr(batches, "validate_data", lambda *given, **options: pytest.fail("checked"))
    model = budgetron.SecondOrderProjectron(budget=4).partial_fit(ROWS, LABELS, classes=[0, 1])
    model.partial_fit(ROWS, LABELS)
    model.decision_function(ROWS)
    for rows in (sparse.csr_matrix(ROWS), sparse.csr_array(ROWS)):
        model.partial_fit(rows, LABELS)
        model.decision_function(rows)
