"""Random sequences of calls of a classifier, compared with the plain loop."""

import copy

import inputs
import invalid
import joblib
import numpy as np
import pandas as pd
from checks import refuses, strict
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from loop import Loop, assert_same
from progress import report_step
from sklearn.base import clone
from states import COPIES, assert_equal, close, frozen
from ties import probe_rows

from budgetron._base.kernel_classifier import KernelClassifier
from budgetron._base.online_classifier import OnlineClassifier
from budgetron._base.weighted_classifier import WeightedClassifier
from budgetron.batch import AveragedClassifier, PenalizedRiskClassifier
from budgetron.experts import ExpertClassifier

SIZES = (1, 1, 2, 3, 5, 9, 34, 50, 90)

seeds = st.integers(0, 999)
batches = st.tuples(
    seeds,
    st.sampled_from(SIZES),
    st.sampled_from(["grid", "fresh"]),
    st.sampled_from(["random", "learnable", "constant"]),
)


class ClassifierMachine(RuleBasedStateMachine):
    """Calls of one classifier. A subclass sets the variant."""

    variant = None

    @initialize(
        kind=st.sampled_from(sorted(inputs.LABELS)),
        n_classes=st.sampled_from([2, 2, 3]),
        method=st.sampled_from(["play", "partial_fit"]),
    )
    def start(self, kind, n_classes, method):
        self.model = self.variant.make()
        if has_class_weight(self.model):
            kind = "int"
        self.kind, self.labels, self.method = kind, inputs.LABELS[kind], method
        self.n_first = min(n_classes, len(self.labels))
        self.loop = None

    # ------------------------------------------------------------------ learning

    @rule(
        batch=batches,
        how=st.sampled_from(["partial_fit", "partial_fit", "progressive_fit", "ledger", "admit", "fit"]),
        form=st.sampled_from(sorted(inputs.FORMS)),
        label_form=st.sampled_from(sorted(inputs.LABEL_FORMS)),
        weighted=st.booleans(),
    )
    def learn(self, batch, how, form, label_form, weighted):
        report_step()
        how = self.available(how)
        form = self.form(form)
        weighted = weighted and takes_weights(self.model) and how not in ("progressive_fit", "ledger")
        X, labels, first = self.batch(batch, how, form)
        weights = (
            np.random.default_rng(batch[0]).choice([0.0, 0.5, 1.0, 2.0], len(labels)) if weighted else None
        )
        classes = self.begin(form) if first else None
        kept, margins, sizes = self.play_loop(X, labels, weights)
        if how == "fit" and len({labels[i] for i in kept}) < self.n_first:
            # `fit` would find fewer classes in these rows.
            how, self.model = "partial_fit", clone(self.model)
        if not kept:
            return
        rows, y = form.convert(X[kept]), self.y([labels[i] for i in kept], label_form)
        options = {} if weights is None else {"sample_weight": weights[kept].tolist()}
        with strict():
            if how == "fit":
                assert self.model.fit(rows, y, **options) is self.model
            elif how in ("partial_fit", "admit"):
                if how == "admit":
                    options["admit"] = True
                assert self.model.partial_fit(rows, y, classes, **options) is self.model
            else:
                ledger = {"ledger": True} if how == "ledger" else {}
                trace = self.model.progressive_fit(rows, y, classes, **ledger)
                self.compare_trace(trace, margins, sizes)
            assert_same(self.model, self.loop)

    def available(self, how):
        """Return how to learn: what was drawn, or something that the model can do."""
        if how == "admit" and isinstance(
            self.model, AveragedClassifier | PenalizedRiskClassifier | ExpertClassifier
        ):
            return "partial_fit"
        if how == "ledger" and not has_ledger(self.model):
            return "progressive_fit"
        return how

    def form(self, name):
        names = inputs.forms_for(self.variant)
        return inputs.FORMS[name if name in names else names[len(name) % len(names)]]

    def batch(self, batch, how, form):
        """Return rows, labels, and whether the model starts with them."""
        seed, n, style, label_style = batch
        first = self.loop is None or how == "fit"
        X = inputs.make_rows(seed, n, self.variant.d, form.values, style)
        if how == "admit":
            known = self.labels
        elif first:
            known = self.labels[: self.n_first]
        else:
            known = self.loop.model.classes_.tolist()
        codes = inputs.make_labels(seed, X, len(known), label_style)
        if how == "fit":
            codes[: self.n_first] = range(min(n, self.n_first))
        return X, [known[code] for code in codes], first

    def begin(self, form):
        """Start the plain loop, and return the classes of the first call."""
        classes = inputs.as_array(sorted(self.labels[: self.n_first]), self.kind)
        self.loop = Loop(self.variant, classes, "float32" if form.single else "float64", self.method)
        return classes.tolist()

    def play_loop(self, X, labels, weights):
        """Let the plain loop learn; return which rounds were kept, their margins and numbers of supports."""
        kept, margins, sizes = [], [], []
        for i, label in enumerate(labels):
            if self.loop.is_tie(X[i]):
                continue
            margin, size = self.loop.learn(X[i], label, None if weights is None else weights[i])
            kept.append(i)
            margins.append(margin)
            sizes.append(size)
        return kept, margins, sizes

    def y(self, labels, form):
        if form == "objects" and self.kind not in ("text", "objects"):
            form = "array"  # scikit-learn refuses arrays of objects that are not text
        return inputs.LABEL_FORMS[form](inputs.as_array(labels, self.kind))

    def compare_trace(self, trace, margins, sizes):
        if margins[0] is not None:
            assert close(trace.margins, np.array(margins), self.loop.tolerance), "the trace has other margins"
        if sizes[0] is not None:
            assert trace.support_sizes.tolist() == sizes

    @rule(
        batch=batches, form=st.sampled_from(sorted(inputs.FORMS)), vector=st.booleans(), numpy=st.booleans()
    )
    def play(self, batch, form, vector, numpy):
        report_step()
        if not hasattr(self.model, "play"):
            return
        form = self.form(form if form not in inputs.OBJECTS else "C order")
        batch = (batch[0], min(batch[1], 5), *batch[2:])
        X, labels, first = self.batch(batch, "play", form)
        classes = self.begin(form) if first else None
        kept, margins, _ = self.play_loop(X, labels, None)
        for i, expected in zip(kept, margins, strict=True):
            label = np.array(labels[i])[()] if numpy else labels[i]
            row = single_row(form.convert(X[i : i + 1]), vector)
            with strict():
                margin = self.model.play(row, label, classes)
            classes = None
            if expected is not None:
                assert close(margin, expected, self.loop.tolerance), f"margin {margin}, not {expected}"
        if kept:
            with strict():
                assert_same(self.model, self.loop)

    # ------------------------------------------------------------------ prediction

    @precondition(lambda self: self.loop is not None)
    @rule(batch=batches, form=st.sampled_from(sorted(inputs.FORMS)))
    def predict(self, batch, form):
        report_step()
        form = self.form(form)
        X = self.loop.comparable(inputs.make_rows(*batch[:2], self.variant.d, form.values, batch[2]))
        if not len(X):
            return
        before = frozen(self.model)
        rows = form.convert(X)
        with strict():
            margins = self.model.decision_function(rows)
            labels = self.model.predict(rows)
            probabilities = self.model.predict_proba(rows) if hasattr(self.model, "predict_proba") else None
            expected = self.loop.model.decision_function(X.astype(self.loop.dtype))
        assert_equal(before, frozen(self.model))
        assert close(margins, expected, self.loop.tolerance), f"{margins} instead of {expected}"
        assert set(labels.tolist()) <= set(self.model.classes_.tolist())
        assert len(labels) == len(X)
        if probabilities is not None:
            assert probabilities.shape == (len(X), len(self.model.classes_))
            assert close(probabilities.sum(axis=1), np.ones(len(X)), 1e-9)
            assert probabilities.min() >= 0.0

    @rule()
    def read(self):
        """Read all attributes."""
        report_step()
        before = frozen(self.model)
        with strict():
            for name in dir(self.model):
                if name.endswith("_") and not name.endswith("__"):
                    getattr(self.model, name, None)
            repr(self.model)
            assert joblib.hash(self.model) == joblib.hash(self.model)
            assert frozen(clone(self.model)) == frozen(clone(clone(self.model)))
        assert_equal(before, frozen(self.model))

    # ------------------------------------------------------------------ copies and parameters

    @rule(how=st.sampled_from(sorted(COPIES)), swap=st.booleans(), batch=batches)
    def copy(self, how, swap, batch):
        """Copy the model, and go on with the copy or with the original while the other one learns."""
        report_step()
        if (how == "file" and not self.variant.savable) or (how == "skops" and self.variant.foreign):
            return
        if how == "pickle with buffers" and self.variant.foreign:
            return  # a learner of scikit-learn keeps the read-only arrays that it gets, and cannot learn
        before = frozen(self.model)
        with strict():
            other = COPIES[how](self.model)
        assert_equal(before, frozen(self.model))
        assert_equal(before, frozen(other), how)
        if swap:
            self.model, other = other, self.model
        if self.loop is not None:
            X = inputs.make_rows(*batch[:2], self.variant.d, "real", "fresh").astype(self.loop.dtype)
            classes = other.classes_
            with strict():
                other.partial_fit(X, classes[inputs.make_labels(batch[0], X, len(classes), "random")])
            assert_equal(before, frozen(self.model), f"{how} shares its state")

    @rule(n_jobs=st.sampled_from([None, 1, 2, -1]))
    def set_free_parameters(self, n_jobs):
        report_step()
        if isinstance(self.model, KernelClassifier):
            assert self.model.set_params(n_jobs=n_jobs) is self.model

    # ------------------------------------------------------------------ invalid calls

    @rule(
        name=st.sampled_from(sorted(invalid.BAD_ROWS) + sorted(invalid.BAD_LATER_ROWS)),
        method=st.sampled_from(
            ["fit", "partial_fit", "admit", "progressive_fit", "predict", "decision_function"]
        ),
    )
    def bad_rows(self, name, method):
        report_step()
        later = invalid.BAD_LATER_ROWS
        if name in later and (self.loop is None or method == "fit"):
            return
        X = (invalid.BAD_ROWS | later)[name](self.variant.d)
        n = len(X) if isinstance(X, np.ndarray) and X.ndim else invalid.N
        if method in ("predict", "decision_function"):
            self.refuses(lambda: getattr(self.model, method)(X))
        else:
            self.refuses_batch(method, X, self.good_labels(n))

    @rule(
        name=st.sampled_from(sorted(invalid.BAD_LABELS)),
        method=st.sampled_from(["fit", "partial_fit", "admit", "progressive_fit"]),
    )
    def bad_labels(self, name, method):
        report_step()
        new_labels = ("unknown number", "unknown text", "fractions", "complex", "dicts", "missing", "NaN")
        if method in ("fit", "admit") and name in new_labels:
            return  # labels may be new there, and which of them are classes is for scikit-learn to decide
        if method == "progressive_fit" and self.loop is None and name in new_labels:
            return
        y = invalid.BAD_LABELS[name](inputs.as_array(self.labels[:2], self.kind))
        self.refuses_batch(method, invalid.good_rows(self.variant.d), y)

    @rule(name=st.sampled_from(sorted(invalid.BAD_SINGLE_ROWS)))
    def bad_single_row(self, name):
        report_step()
        if not hasattr(self.model, "play") or (self.loop is None and name in invalid.LATER_SINGLE_ROWS):
            return
        x = invalid.BAD_SINGLE_ROWS[name](self.variant.d)
        self.refuses(lambda: self.model.play(x, self.labels[0], self.first_classes()))

    @rule(name=st.sampled_from(sorted(invalid.BAD_SINGLE_LABELS)))
    def bad_single_label(self, name):
        report_step()
        if hasattr(self.model, "play"):
            y = invalid.BAD_SINGLE_LABELS[name]
            self.refuses(lambda: self.model.play(np.ones(self.variant.d), y, self.first_classes()))

    @rule(kind=st.sampled_from(["keyword", "classes", "one class", "parameter", "weights", "names"]))
    def bad_call(self, kind):
        report_step()
        X, model = invalid.good_rows(self.variant.d), self.model
        y = self.good_labels(len(X))
        if kind == "keyword":
            self.refuses(lambda: model.fit(X, y, unknown=1))
            self.refuses(lambda: model.partial_fit(X, y, self.first_classes(), unknown=1))
            self.refuses(lambda: model.set_params(unknown=1))
        elif kind == "one class":
            self.refuses(lambda: model.partial_fit(X, y, classes=[y[0]]))
            self.refuses(lambda: model.fit(X, [y[0]] * len(X)))
        elif kind == "classes" and self.loop is not None:
            self.refuses(lambda: model.partial_fit(X, y, classes=["one", "two"]))
            self.refuses(lambda: model.progressive_fit(X, y, classes=[*self.labels, 77][-2:]))
        elif kind == "weights":
            for weights in (
                [-1.0] * len(X),
                [np.nan] * len(X),
                [1.0] * 9,
                "heavy",
                [[1.0]] * len(X),
                np.inf,
                -1,
            ):
                self.refuses(lambda w=weights: model.partial_fit(X, y, self.first_classes(), sample_weight=w))
        elif kind == "parameter":
            self.change_parameter(X, y)
        elif kind == "names" and hasattr(model, "feature_names_in_"):
            frame = pd.DataFrame(X, columns=[f"other{j}" for j in range(X.shape[1])])
            self.refuses(lambda: model.partial_fit(frame, y))
            self.refuses(lambda: model.predict(frame))

    def change_parameter(self, X, y):
        """Learn with an invalid parameter, and with one that changed."""
        name = next(name for name in sorted(self.model.get_params(deep=False)) if name != "n_jobs")
        value = getattr(self.model, name)
        self.model.set_params(**{name: "unknown"})
        self.refuses(lambda: self.model.partial_fit(X, y, self.first_classes()))
        self.refuses(lambda: self.model.fit(X, y))
        if self.loop is not None:
            self.model.set_params(**{name: 5})
            self.refuses(lambda: self.model.partial_fit(X, y))
        self.model.set_params(**{name: value})

    @rule(size=st.sampled_from([1e100, 1e155, 1e200, 1e308, -1e308]), seed=seeds)
    def huge_values(self, size, seed):
        """Rows whose squares overflow are learned or refused; a refusal changes nothing."""
        report_step()
        if callable(getattr(self.model, "kernel", None)) or self.variant.foreign:
            return  # code that is not ours overflows
        X = inputs.make_rows(seed, 40, self.variant.d, "real", "fresh")
        X[-3:] *= size / 4
        before, model = frozen(self.model), copy.deepcopy(self.model)
        try:
            with strict():
                model.partial_fit(X, self.good_labels(len(X)), self.first_classes())
        except ValueError:
            assert_equal(before, frozen(model))
        if hasattr(model, "play") and self.loop is not None:
            before = frozen(model)
            try:
                with strict(), np.errstate(over="ignore"):  # float64 values may be too large for float32
                    model.play(X[-1], self.labels[0])
            except ValueError:
                assert_equal(before, frozen(model))
        if self.loop is not None:
            with strict():
                assert np.isfinite(model.decision_function(probe_rows(np.zeros((1, self.variant.d))))).all()

    def good_labels(self, n):
        known = self.loop.model.classes_.tolist() if self.loop is not None else self.labels[: self.n_first]
        return inputs.as_array([known[i % len(known)] for i in range(n)], self.kind)

    def first_classes(self):
        return None if self.loop is not None else sorted(self.labels[: self.n_first])

    def refuses_batch(self, method, X, y):
        options = {"admit": True} if method == "admit" else {}
        if method == "fit":
            self.refuses(lambda: self.model.fit(X, y))
            return
        method = "partial_fit" if method == "admit" else method
        if options and isinstance(self.model, ExpertClassifier):
            return
        self.refuses(lambda: getattr(self.model, method)(X, y, self.first_classes(), **options))

    def refuses(self, call):
        refuses(self.model, call)

    @invariant()
    def is_fitted_after_learning(self):
        assert hasattr(self.model, "classes_") == (self.loop is not None)


def has_class_weight(model):
    return bool(model.get_params(deep=False).get("class_weight"))


def takes_weights(model):
    return isinstance(model, WeightedClassifier) and getattr(model, "variant", None) != "PA"


def has_ledger(model):
    return isinstance(model, OnlineClassifier)


def single_row(rows, vector):
    """Return one row for `play`, from a batch of one row."""
    if not vector or hasattr(rows, "tocsr"):
        return rows
    return rows.to_numpy()[0] if hasattr(rows, "to_numpy") else rows[0]
