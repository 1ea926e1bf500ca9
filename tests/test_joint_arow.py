"""AROW with all losses, forgetting, weights, and one hypothesis for all classes."""

import copy
import pickle
from itertools import pairwise

import numpy as np
import pytest
from cases import all_weights, with_ones
from reference.linear import JointAROW
from scipy.sparse import csr_array
from sklearn.base import clone

import budgetron
from budgetron import CalibratedClassifier, SecondOrderProjectron, evaluate, export
from budgetron._base.access import add_class, add_features, bytes_needed
from budgetron.batch import AveragedClassifier, PenalizedRiskClassifier
from budgetron.export._predictor import predictor_of
from budgetron.linear import AROW

LOSSES = ("hinge", "logistic", "squared")
FORMS = ("full", "diagonal")
R = 0.7


def stream(n_classes, n=260, d=5, seed=0):
    """Return sparse rows, some of them 0, and the codes of their classes, some of them noise."""
    rng = np.random.default_rng(seed)
    X = np.where(rng.random((n, d)) < 0.6, rng.normal(size=(n, d)) * np.arange(1, d + 1), 0.0)
    codes = (X @ rng.normal(size=(d, n_classes))).argmax(axis=1)
    return X, np.where(rng.random(n) < 0.1, rng.integers(n_classes, size=n), codes)


def prior_of(loss, parameters):
    return parameters.get("prior", 100.0 if loss == "logistic" else 1.0)


def play_reference(X, codes, n_classes, covariance, weights=None, **parameters):
    """Return the reference after the stream, with the scores and the ledger of each round."""
    run = JointAROW(X.shape[1], n_classes, R, covariance, **parameters)
    weights = np.ones(len(X)) if weights is None else weights
    rounds = [(run.play(*row), run.entry) for row in zip(X, codes, weights, strict=True)]
    scores, entries = zip(*rounds, strict=True)
    return run, np.array(scores), {name: np.array([e[name] for e in entries]) for name in entries[0]}


def two_dimensional(margins):
    return margins[:, None] if margins.ndim == 1 else margins


def covariance_of(model):
    rule = model._learners[0]
    return np.diag(rule.variances()) if rule.covariance is None else rule.covariance.matrix()


CASES = [
    (loss, n, covariance, parameters)
    for loss in LOSSES
    for n in (2, 3, 5)
    for covariance in FORMS
    for parameters in ({}, {"forget": 0.97}, {"prior": 20.0}, {"prior": 3.0, "forget": 0.5})
] + [
    (loss, n, covariance, {"fit_intercept": False}) for loss in LOSSES for n in (2, 3) for covariance in FORMS
]


@pytest.mark.parametrize(("loss", "n_classes", "covariance", "parameters"), CASES)
def test_equals_reference(loss, n_classes, covariance, parameters):
    X, codes = stream(n_classes)
    prior = prior_of(loss, parameters)
    run, scores, entries = play_reference(
        X, codes, n_classes, covariance, loss=loss, **parameters | {"prior": prior}
    )
    close = {"rtol": 1e-8, "atol": 1e-8 * max(1.0, np.abs(scores).max())}
    whole, cut, single, one_sparse, sparse = (AROW(R, covariance, loss, **parameters) for _ in range(5))
    trace = whole.progressive_fit(X, codes, ledger=True)
    np.testing.assert_allclose(two_dimensional(trace.margins), scores, **close)
    for name, values in entries.items():
        np.testing.assert_allclose(trace.ledger[name], values, rtol=1e-7, atol=1e-8, err_msg=name)
    classes = np.arange(n_classes)
    parts = [
        cut.progressive_fit(X[a:b], codes[a:b], classes=classes)
        for a, b in pairwise([0, 1, 2, 40, 41, 130, 259, 260])
    ]
    cut_margins = np.concatenate([part.margins for part in parts])
    played = np.array([single.play(x, y, classes=classes) for x, y in zip(X, codes, strict=True)])
    rows = csr_array(X)
    played_sparse = np.array(
        [one_sparse.play(rows[[i]], y, classes=classes) for i, y in enumerate(codes.tolist())]
    )
    sparse_margins = sparse.progressive_fit(rows, codes).margins
    for margins in (cut_margins, played, played_sparse, sparse_margins):
        np.testing.assert_allclose(two_dimensional(margins), scores, **close)
    np.testing.assert_array_equal(trace.margins, cut_margins)
    np.testing.assert_array_equal(trace.margins, played)
    for learned in (whole, cut, single, one_sparse, sparse):
        assert (learned.mistakes_, learned.updates_) == (run.mistakes, run.updates)
        if not run.fit_intercept:
            np.testing.assert_array_equal(learned.intercept_, np.zeros(len(run.w)))
        expected = run.w if run.fit_intercept else np.insert(run.w, 0, 0.0, axis=1)
        np.testing.assert_allclose(all_weights(learned), expected, **close)
        np.testing.assert_allclose(covariance_of(learned), run.sigma, rtol=1e-6, atol=1e-9 * prior)
        expected = with_ones(X) @ expected.T
        np.testing.assert_allclose(two_dimensional(learned.decision_function(X)), expected, **close)
        np.testing.assert_allclose(two_dimensional(learned.decision_function(rows)), expected, **close)


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("n_classes", [2, 4])
@pytest.mark.parametrize("forget", [1.0, 0.95])
@pytest.mark.parametrize("weighted", [False, True])
def test_equals_the_second_order_projectron_without_supports(loss, n_classes, forget, weighted):
    """With gamma = 1 and no support, its coordinates are (1, x)."""
    X, codes = stream(n_classes)
    weights = np.random.default_rng(1).choice([0.0, 0.25, 1.0, 3.0], len(X)) if weighted else None
    kernel = SecondOrderProjectron(5, threshold=2.0, r=R, loss=loss, forget=forget, gamma=1.0)
    alone = AROW(R, "full", loss, forget=forget)
    expected = kernel._learn(X, codes, classes_from_y=True, trace=True, weights=weights)
    trace = alone._learn(X, codes, classes_from_y=True, trace=True, weights=weights)
    assert kernel.n_support_ == 0
    np.testing.assert_allclose(trace.margins, expected.margins, rtol=1e-7, atol=1e-7)
    np.testing.assert_array_equal(trace.mistakes, expected.mistakes)


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("n_classes", [2, 4])
@pytest.mark.parametrize("covariance", FORMS)
def test_weights_divide_the_noise(loss, n_classes, covariance):
    X, codes = stream(n_classes)
    weights = np.random.default_rng(1).choice([0.0, 0.25, 1.0, 3.0], len(X))
    prior = prior_of(loss, {})
    run, scores, _ = play_reference(X, codes, n_classes, covariance, weights, loss=loss, prior=prior)
    learned = AROW(R, covariance, loss)
    trace = learned._learn(X, codes, classes_from_y=True, trace=True, weights=weights)
    np.testing.assert_allclose(two_dimensional(trace.margins), scores, rtol=1e-8, atol=1e-8)
    assert learned.updates_ == run.updates
    by_class, by_row = (AROW(R, covariance, loss, class_weight=w) for w in ({0: 0.2, 1: 4.0}, None))
    by_class.fit(X, codes)
    by_row.fit(X, codes, sample_weight=np.choose(np.minimum(codes, 2), [0.2, 4.0, 1.0]))
    np.testing.assert_array_equal(all_weights(by_class), all_weights(by_row))
    played = AROW(R, covariance, loss, class_weight={0: 0.2, 1: 4.0})
    for x, y in zip(X, codes, strict=True):
        played.play(x, y, classes=np.arange(n_classes))
    np.testing.assert_array_equal(all_weights(played), all_weights(by_class))


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("covariance", FORMS)
def test_only_prior_divided_by_r_matters(loss, covariance):
    X, codes = stream(4)
    one, other = AROW(0.7, covariance, loss, prior=2.1), AROW(0.1, covariance, loss, prior=0.3)
    np.testing.assert_allclose(
        one.progressive_fit(X, codes).margins, other.progressive_fit(X, codes).margins, atol=1e-8
    )


@pytest.mark.parametrize("covariance", FORMS)
def test_long_forgetting_keeps_digits(covariance):
    """The common factors are multiplied into the arrays many times."""
    X, codes = stream(3, 3000)
    run, scores, _ = play_reference(X, codes, 3, covariance, loss="squared", prior=1.0, forget=0.5)
    learned = AROW(R, covariance, "squared", forget=0.5)
    np.testing.assert_allclose(learned.progressive_fit(X, codes).margins, scores, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(covariance_of(learned), run.sigma, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("covariance", FORMS)
@pytest.mark.parametrize("n_classes", [2, 4])
def test_the_logistic_step_has_all_digits_on_long_rows(covariance, n_classes):
    X, codes = stream(n_classes, 20)
    X *= 1e9  # v / r is about 1e20
    _, scores, _ = play_reference(X, codes, n_classes, covariance, loss="logistic", prior=100.0)
    margins = AROW(R, covariance, "logistic").progressive_fit(X[:3], codes[:3], np.arange(n_classes)).margins
    np.testing.assert_allclose(two_dimensional(margins), scores[:3], rtol=1e-5)
    assert np.abs(scores[:3]).max() > 1.0


@pytest.mark.parametrize("forget", [1.0 - 1e-9, 1.0 - 2.0**-53])
@pytest.mark.parametrize("covariance", FORMS)
def test_slow_forgetting_on_long_rows_stays_finite(covariance, forget):
    X, codes = stream(3, 2000)
    for scale in (1e-8, 1.0, 1e8):
        # An intercept, whose feature is 1, would explain the labels of very short rows.
        learned = AROW(R, covariance, forget=forget, fit_intercept=scale >= 1.0).fit(scale * X, codes)
        assert np.isfinite(learned.coef_).all()
        assert np.linalg.eigvalsh(covariance_of(learned)).min() > -1e-9
        assert learned.score(scale * X, codes) > 0.5


def test_forgetting_follows_a_stream_that_changes():
    X, codes = stream(4, 4000)
    codes[2000:] = (codes[2000:] + 1) % 4
    for covariance in FORMS:
        static, forgetting = AROW(R, covariance), AROW(R, covariance, forget=0.99)
        late = [model.progressive_fit(X, codes).mistakes[2500:].sum() for model in (static, forgetting)]
        assert late[1] < 0.7 * late[0]


def test_the_default_loss():
    X, codes = stream(4)
    assert AROW().fit(X, codes % 2).loss_ == "hinge"
    assert AROW().fit(X, codes).loss_ == "logistic"
    admitted = AROW().partial_fit(X[:50], codes[:50] % 2, classes=[0, 1])
    admitted.partial_fit(X[50:], codes[50:], admit=True)
    assert admitted.loss_ == "hinge"
    restored = pickle.loads(pickle.dumps(admitted))
    assert restored.loss_ == "hinge"
    for one in (admitted, restored):
        one.partial_fit(X, codes)
    np.testing.assert_array_equal(admitted.coef_, restored.coef_)


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("covariance", FORMS)
def test_a_new_class_has_mean_zero(loss, covariance):
    """Two classes with one mean continue as three with the means -w, w and 0, in the order of the labels."""
    X, codes = stream(2)
    names = np.array(["b", "d"])[codes]
    learned = AROW(R, covariance, loss, forget=0.99).fit(X[:100], names[:100])
    (w,), sigma = all_weights(learned), covariance_of(learned)
    add_class(learned, "c")
    np.testing.assert_array_equal(learned.classes_, ["b", "c", "d"])
    np.testing.assert_array_equal(all_weights(learned), [-w, np.zeros(len(w)), w])
    np.testing.assert_array_equal(covariance_of(learned), sigma)
    twin = copy.deepcopy(learned)
    labels = np.where(X[100:, 2] > 0.0, "a", names[100:])
    for one in (learned, twin):
        one.partial_fit(X[100:], labels, admit=True)
    assert learned.classes_.tolist() == ["a", "b", "c", "d"]
    assert learned.rounds_ == len(X)
    np.testing.assert_array_equal(learned.coef_, twin.coef_)
    norm = learned._learners[0].norm2
    assert norm == pytest.approx((all_weights(learned) ** 2).sum(), rel=1e-9)


@pytest.mark.parametrize("covariance", FORMS)
@pytest.mark.parametrize("forget", [1.0, 0.98])
def test_float32_follows_float64(covariance, forget):
    X, codes = stream(4)
    X = X.astype(np.float32)
    model = AROW(R, covariance, forget=forget)
    for rows in (X, csr_array(X)):
        single = clone(model).progressive_fit(rows, codes)
        double = clone(model).progressive_fit(rows.astype(float), codes)
        np.testing.assert_allclose(single.margins, double.margins, rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("n_classes", [2, 4])
@pytest.mark.parametrize("covariance", FORMS)
@pytest.mark.parametrize("forget", [1.0, 0.99])
def test_files_and_pickles_continue_exactly(loss, n_classes, covariance, forget, tmp_path):
    X, codes = stream(n_classes)
    learned = AROW(R, covariance, loss, forget=forget, class_weight={0: 2.0}).fit(X[:200], codes[:200])
    budgetron.save(learned, tmp_path / "model")
    for other in (budgetron.load(tmp_path / "model"), pickle.loads(pickle.dumps(learned))):
        continued = copy.deepcopy(learned)
        for one in (other, continued):
            one.partial_fit(X[200:], codes[200:])
        np.testing.assert_array_equal(all_weights(other), all_weights(continued))
        assert (other.mistakes_, other.loss_) == (continued.mistakes_, loss)
        assert other.nbytes_ == continued.nbytes_


@pytest.mark.parametrize("covariance", FORMS)
@pytest.mark.parametrize("forget", [1.0, 0.98])
@pytest.mark.parametrize("wrap", [lambda learner: learner, AveragedClassifier, PenalizedRiskClassifier])
def test_new_features_after_the_start(covariance, forget, wrap):
    X, codes = stream(4, d=6)
    narrow, wide = (wrap(AROW(R, covariance, forget=forget)) for _ in range(2))
    narrow.fit(X[:150, :4], codes[:150])
    wide.fit(np.pad(X[:150, :4], ((0, 0), (0, 2))), codes[:150])
    add_features(narrow, 6)
    for one in (narrow, wide):
        one.partial_fit(X[150:], codes[150:])
    np.testing.assert_allclose(all_weights(narrow), all_weights(wide), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("forget", [1.0, 0.98])
def test_features_above_the_limit_make_the_covariance_diagonal(forget):
    X, codes = stream(3)
    learned = AROW(R, forget=forget).fit(X, codes)
    sigma, coef = covariance_of(learned), all_weights(learned)
    add_features(learned, 1001)
    assert learned._learners[0].covariance is None
    np.testing.assert_allclose(learned._learners[0].variances()[:6], sigma.diagonal(), rtol=1e-9)
    np.testing.assert_allclose(learned._learners[0].variances()[6:], 100.0)
    np.testing.assert_array_equal(all_weights(learned)[:, :6], coef)
    learned.partial_fit(np.pad(X, ((0, 0), (0, 996))), codes)


@pytest.mark.parametrize("covariance", FORMS)
@pytest.mark.parametrize("forget", [1.0, 0.7])
@pytest.mark.parametrize("n_classes", [2, 4])
def test_averages_and_journals_have_all_outputs(covariance, forget, n_classes):
    X, codes = stream(n_classes, 120)
    prior = 1.0 if n_classes == 2 else 100.0
    loss = "hinge" if n_classes == 2 else "logistic"
    run, means = JointAROW(5, n_classes, R, covariance, loss=loss, prior=prior, forget=forget), []
    for x, y in zip(X, codes, strict=True):
        means.append(run.w)
        run.play(x, y)
    averaged = AveragedClassifier(AROW(R, covariance, forget=forget)).fit(X, codes)
    np.testing.assert_allclose(all_weights(averaged), np.mean(means, axis=0), rtol=1e-8, atol=1e-10)
    np.testing.assert_allclose(
        two_dimensional(averaged.decision_function(X)),
        with_ones(X) @ all_weights(averaged).T,
        rtol=1e-9,
        atol=1e-9,
    )
    assert averaged.risk_bound_ > 0.0
    best = PenalizedRiskClassifier(AROW(R, covariance, forget=forget)).fit(X, codes)
    expected = means[best.births_[best.chosen_]]
    np.testing.assert_allclose(all_weights(best), expected, rtol=1e-8, atol=1e-8)
    np.testing.assert_allclose(
        two_dimensional(best.decision_function(X)), with_ones(X) @ expected.T, rtol=1e-7, atol=1e-7
    )
    for birth, losses in zip(best.births_, best.losses_, strict=True):
        scores = with_ones(X[birth:]) @ means[birth].T if birth < len(X) else np.zeros((0, 1))
        y = codes[birth:]
        if n_classes == 2:
            wrong = np.where(y == 1, scores[:, 0], -scores[:, 0]) <= 0.0
        else:
            right = scores[np.arange(len(y)), y] if len(y) else np.zeros(0)
            others = np.where(np.arange(n_classes) == y[:, None], -np.inf, scores) if len(y) else None
            wrong = right <= others.max(axis=1) if len(y) else right
        assert losses == wrong.sum()


def test_probabilities_come_from_the_logistic_loss():
    X, codes = stream(4, 3000)
    learned = AROW().fit(X[:2000], codes[:2000])
    proba = learned.predict_proba(X[2000:])
    np.testing.assert_allclose(proba.sum(axis=1), 1.0)
    np.testing.assert_array_equal(proba.argmax(axis=1), learned.decision_function(X[2000:]).argmax(axis=1))
    two = AROW(loss="logistic").fit(X, codes % 2)
    np.testing.assert_allclose(two.predict_proba(X)[:, 1], 1.0 / (1.0 + np.exp(-two.decision_function(X))))
    hinge = AROW().fit(X, codes % 2)
    assert not hasattr(hinge, "predict_proba")
    with pytest.raises(AttributeError, match="AROW has probabilities with the logistic loss only"):
        hinge.predict_proba(X)


def test_calibration_comparison_and_export_with_several_outputs():
    X, codes = stream(4)
    calibrated = CalibratedClassifier(AROW(loss="hinge")).fit(X, codes)
    alone = AROW(loss="hinge").fit(X, codes)
    assert calibrated.sigmoids_.shape == (4, 7)
    assert calibrated.mistakes_ == alone.mistakes_
    compared = evaluate.compare({"one": AROW(), "other": AROW(r=3.0)}, (X, codes))
    expected = [one.progressive_fit(X, codes).error_rate for one in (AROW(), AROW(r=3.0))]
    np.testing.assert_allclose([compared["one"].error_rate, compared["other"].error_rate], expected)
    np.testing.assert_array_equal(predictor_of(alone, (), "a file").scores.slopes, alone.coef_)
    assert "#define MODEL_OUTPUTS 4" in export.c(alone)


@pytest.mark.parametrize("covariance", FORMS)
@pytest.mark.parametrize("forget", [1.0, 0.9])
def test_memory_is_counted_and_known_before(covariance, forget):
    X, codes = stream(5, 400, d=60)
    model = AROW(covariance=covariance, forget=forget)
    two, five = clone(model).fit(X, codes % 2), clone(model).fit(X, codes)
    assert five.nbytes_ - two.nbytes_ == 8 * (4 * 61 + 4 + 5)  # weights, steps and scores
    for learned, n_classes in ((two, 2), (five, 5)):
        assert bytes_needed(clone(model), X, n_classes) == learned.nbytes_
    if covariance == "full":
        assert two.nbytes_ < 4 * 61**2 + 8 * 61 * 8


@pytest.mark.parametrize("covariance", FORMS)
def test_a_failed_round_changes_nothing(covariance):
    X, codes = stream(3)
    for loss in LOSSES:
        for n_classes in (2, 3):
            learned = AROW(1e-10, covariance, loss, fit_intercept=False).fit(X[:20], codes[:20] % n_classes)
            twin = copy.deepcopy(learned)
            with pytest.raises(ValueError, match="not finite"):
                learned._learners[0].play(np.full(5, 1e-155), 1.0, 1e300)
            for one in (learned, twin):
                one.partial_fit(X[20:50], codes[20:50] % n_classes)
            np.testing.assert_array_equal(learned.coef_, twin.coef_)
            np.testing.assert_array_equal(covariance_of(learned), covariance_of(twin))


CHANGES = {
    "reductions": (np.full(21, 1e60), "variances of the covariance should not be below 0"),
    "factor": (2.0, "factor of the covariance"),
    "direction": (np.zeros(4), "direction of the covariance should be float64 of shape"),
    "d": (7, "should be of 6 features"),
}


@pytest.mark.parametrize("name", CHANGES)
def test_hostile_states_of_a_full_covariance(name):
    X, codes = stream(3)
    learned = AROW(forget=0.9).fit(X, codes)
    state = learned.learned_state()
    value, message = CHANGES[name]
    state["_learners"]["states"][0]["covariance"][name] = value
    with pytest.raises(ValueError, match=message):
        AROW(forget=0.9).set_learned_state(state)


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("reductions", np.full(6, -1.0), "at most the prior"),
        ("reductions", np.full(6, 1e9), "at most the prior"),
        ("reductions", np.zeros(7), "reductions should be float64 of shape"),
        ("decay", np.zeros(1), "decay should be above 0"),
        ("decay", np.full(1, 2.0), "decay should be above 0"),
        ("decay", np.ones(2), "decay should be float64 of shape"),
    ],
)
def test_hostile_states_of_a_diagonal_covariance(name, value, message):
    X, codes = stream(3)
    learned = AROW(R, "diagonal", forget=0.9).fit(X, codes)
    state = learned.learned_state()
    state["_learners"]["states"][0]["extra"][name] = value
    with pytest.raises(ValueError, match=message):
        AROW(R, "diagonal", forget=0.9).set_learned_state(state)


def test_states_of_another_shape_are_refused():
    X, codes = stream(3)
    learned = AROW().fit(X, codes)

    def changed(change):
        state = copy.deepcopy(learned.learned_state())
        change(state)
        return state

    def drop_output(state):
        state["_learners"]["states"][0]["weights"] = np.zeros((2, 6))

    def flatten(state):
        state["_learners"]["states"][0]["weights"] = np.zeros(6)

    def one_for_each_class(state):
        state["_learners"]["states"] *= 3

    def another_loss(state):
        state["loss_"] = "absolute"

    for change, message in [
        (drop_output, "weights should be float64 of shape"),
        (flatten, "weights should be float64 of shape"),
        (one_for_each_class, "has one for all: learn again"),
        (another_loss, "loss_ should be"),
    ]:
        with pytest.raises(ValueError, match=message):
            AROW().set_learned_state(changed(change))
    AROW().set_learned_state(changed(lambda state: None))
