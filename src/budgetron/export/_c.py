"""Export models as C headers, for systems that have only a C compiler."""

from __future__ import annotations

import os
import re
from importlib.metadata import version
from typing import overload

from budgetron._util.atomic import atomic_write
from budgetron.export._c_combination import combination_functions
from budgetron.export._c_scores import literal, score_function, table
from budgetron.export._pipeline import c_of_pipelines
from budgetron.export._predictor import predictor_of
from budgetron.export._scores import LARGEST_Z, Combined, Predictor, Scores, single
from budgetron.kernels import NAMES

__all__ = ["c"]

Path = str | os.PathLike[str]

HEAD = """\
/* {model}, made by budgetron.export.c of Budgetron {version}.
 *
 * {what}. C99, in float32, and nothing is allocated.
 * Include it in one source file only.
 */
#ifndef {NAME}_H
#define {NAME}_H
{include}
#define {NAME}_FEATURES {features}
#define {NAME}_CLASSES {classes}
#define {NAME}_OUTPUTS {outputs} /* 1 for two classes, otherwise one per class */
"""

TO_LOG_ODDS = """
    for (int c = 0; c < {NAME}_OUTPUTS; c++)
        {values}[c] = {name}_log_odds({values}[c], c);"""

LOG_ODDS = """
/* a z + b, where z is the score divided by its root mean square, within bounds. */
static inline float {name}_log_odds(float score, int c)
{{
    const float *const numbers = {name}_sigmoids[c]; /* a, b, root */
    float z = score / numbers[2];
    z = z < -{largest} ? -{largest} : z > {largest} ? {largest} : z;
    return numbers[0] * z + numbers[1];
}}
"""

TWO_CLASSES = """
/* f(x): above 0 predicts class 1. */
static inline float {name}_decision(const float x[{NAME}_FEATURES])
{{
    float score;
    {name}_decisions(x, &score);
    return score;
}}

/* The class of x, 0 or 1. */
static inline int {name}_predict(const float x[{NAME}_FEATURES])
{{
    return {name}_decision(x) > 0.0f;
}}
"""

MORE_CLASSES = """
/* The class of x, from 0 on: the first with the largest score. */
static inline int {name}_predict(const float x[{NAME}_FEATURES])
{{
    float scores[{NAME}_OUTPUTS];
    int best = 0;
    {name}_decisions(x, scores);
    for (int c = 1; c < {NAME}_OUTPUTS; c++) {{
        if (scores[c] > scores[best])
            best = c;
    }}
    return best;
}}
"""

# The predicted class is the more probable one.
TWO_LOG_ODDS = """\
const float score = {name}_decision(x);
    float odds = {name}_log_odds(score, 0);
    if ((odds > 0.0f) != (score > 0.0f))
        odds = 0.0f;"""

TWO_PROBABILITIES = """
/* The probability of each class. */
static inline void {name}_probabilities(const float x[{NAME}_FEATURES], float p[{NAME}_CLASSES])
{{
    {odds}
    p[0] = 1.0f / (1.0f + expf(odds));
    p[1] = 1.0f / (1.0f + expf(-odds));
}}
"""

MORE_PROBABILITIES = """
/* The probability of each class: {how}. */
static inline void {name}_probabilities(const float x[{NAME}_FEATURES], float p[{NAME}_CLASSES])
{{
    float most, sum = 0.0f;
    {name}_decisions(x, p);{logarithms}
    most = p[0];
    for (int c = 1; c < {NAME}_CLASSES; c++)
        most = p[c] > most ? p[c] : most;
    for (int c = 0; c < {NAME}_CLASSES; c++)
        sum += p[c] = expf(p[c] - most);
    for (int c = 0; c < {NAME}_CLASSES; c++)
        p[c] /= sum;
}}
"""

# For each way from log-odds to probabilities: its name, and the lines that replace log-odds by logarithms
PROBABILITY_LINES = {
    "ratio": (
        "sigmoids divided by their sum. By logarithms, as all sigmoids may be 0",
        """
    for (int c = 0; c < {NAME}_CLASSES; c++)
        p[c] = (p[c] < 0.0f ? p[c] : 0.0f) - log1pf(expf(-fabsf(p[c])));""",
    ),
    "softmax": ("the softmax of the scores", ""),
}

LABEL = """
/* The label of a class. */
static inline {type}{name}_label(int c)
{{
    static {table}labels[{NAME}_CLASSES] = {{{labels}}};
    return labels[c];
}}

#endif
"""


@overload
def c(model: object, path: None = None, name: str = "model") -> str: ...
@overload
def c(model: object, path: Path, name: str = "model") -> None: ...
@c_of_pipelines
def c(model: object, path: Path | None = None, name: str = "model") -> str | None:
    """Export a model as a C header.

    Use it for microcontrollers and other systems that have only a C compiler. The header needs C99 and no
    library except ``<math.h>``, of which it uses single-precision functions like ``expf``.

    Parameters
    ----------
    model : estimator
        A fitted linear learner, a kernel learner with a kernel given by name, a `BudgetClassifier`, or an
        `AveragedClassifier` or `CalibratedClassifier` of such a learner.
    path : str or path-like, optional
        The file to write. It is written atomically.
    name : str, default="model"
        Prefix of all names, a C identifier. In one program, prefixes must differ by more than case.

    Returns
    -------
    str or None
        The header, if there is no `path`. The same model gives the same text.

    Raises
    ------
    TypeError
        If a model of this kind cannot be exported. The message states the reason.
    ValueError
        If the model has not learned anything yet, has numbers that are too large for float32, or if `name` is
        not a C identifier.

    Notes
    -----
    With ``name="model"`` the header has ``MODEL_FEATURES`` and ``MODEL_CLASSES``, and the functions

    - ``int model_predict(const float x[])``: the index of the predicted class in `classes_`;
    - ``model_label(int c)``: the label with this index, text or a whole number;
    - ``float model_decision(const float x[])`` for two classes, and for more
      ``void model_decisions(const float x[], float scores[])``: the values of `decision_function`;
    - ``void model_probabilities(const float x[], float p[])``, only for a model with `predict_proba`: a
      `BudgetClassifier`, a `CalibratedClassifier`, or a `SecondOrderProjectron` or `linear.AROW` with the
      logistic loss.

    They agree with the model to float32 accuracy. Labels agree except where scores are that close to a tie;
    of a `BudgetClassifier`, scores and labels agree except where an expert's scores are.

    The tables have 4 bytes per number: n_features + n_outputs numbers per support, or n_features numbers per
    output for linear learners and the kernel "linear". The linear part of a `SecondOrderProjectron` adds
    n_features + 1 numbers per output.

    A `BudgetClassifier` has such tables for each active expert. A support that several experts have is stored
    once, with an index of 2 bytes for each expert that does not have all supports. The functions need about
    4 (n_features (2 + n_scaled) + n_experts n_outputs) bytes of stack, where n_scaled is the number of
    experts with learned scales.

    Examples
    --------
    >>> import budgetron
    >>> model = budgetron.Forgetron(budget=2).fit([[0.0], [1.0], [2.0]], ["no", "yes", "no"])
    >>> header = budgetron.export.c(model, name="fan")
    >>> print(*(line for line in header.splitlines() if "fan_predict" in line))
    static inline int fan_predict(const float x[FAN_FEATURES])
    """
    if not isinstance(name, str) or re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name) is None:
        raise ValueError(
            f"name must be a C identifier (ASCII letters, digits and _, no digit first); got {name!r}"
        )
    text = _header(type(model).__name__, predictor_of(model, NAMES, "a C header"), name)
    if path is None:
        return text
    with atomic_write(path) as file:
        file.write(text.encode())
    return None


def _header(model: str, predictor: Predictor, name: str) -> str:
    scores = predictor.scores
    names = {"name": name, "NAME": name.upper()}
    parts = [
        HEAD.format(
            model=model,
            version=version("budgetron"),
            classes=len(predictor.labels),
            features=scores.features,
            outputs=scores.outputs,
            what=_description(scores),
            include="\n#include <math.h>\n" if _needs_math(predictor) else "",
            **names,
        )
    ]
    if predictor.sigmoids is not None:
        sigmoids = single(predictor.sigmoids, "sigmoids")
        parts.append(table(f"{name}_sigmoids[{name.upper()}_OUTPUTS][3]", sigmoids))
        parts.append(LOG_ODDS.format(largest=literal(LARGEST_Z), **names))
    after = TO_LOG_ODDS.format(values="scores", **names) if predictor.predicts_by_log_odds else ""
    if isinstance(scores, Combined):
        parts += combination_functions(scores, after, names)
    else:
        parts += score_function(scores, after, names)
    parts.append((TWO_CLASSES if scores.outputs == 1 else MORE_CLASSES).format(**names))
    if predictor.probabilities is not None:
        parts.append(_probabilities(predictor, names))
    parts.append(_label(predictor.labels, names))
    return "".join(parts)


def _needs_math(predictor: Predictor) -> bool:
    scores = predictor.scores
    if isinstance(scores, Combined) or predictor.probabilities is not None:
        return True
    return scores.expansion is not None and scores.expansion.kernel.name in ("rbf", "laplacian")


def _description(scores: Scores | Combined) -> str:
    if isinstance(scores, Combined):
        return f"{len(scores.experts)} experts, linear and with the kernel rbf, and their combination"
    if scores.expansion is None:
        return "Linear"
    return f"Kernel {scores.expansion.kernel.name}" + (
        " and a linear part" if scores.slopes is not None else ""
    )


def _probabilities(predictor: Predictor, names: dict[str, str]) -> str:
    from_scores = predictor.sigmoids is not None and not predictor.predicts_by_log_odds
    if predictor.scores.outputs == 1:
        odds = TWO_LOG_ODDS if from_scores else "const float odds = {name}_decision(x);"
        return TWO_PROBABILITIES.format(odds=odds.format(**names), **names)
    how, logarithms = PROBABILITY_LINES[predictor.probabilities or "softmax"]
    odds = TO_LOG_ODDS.format(values="p", **names) if from_scores else ""
    return MORE_PROBABILITIES.format(how=how, logarithms=odds + logarithms.format(**names), **names)


def _label(labels: list[int] | list[str], names: dict[str, str]) -> str:
    if isinstance(labels[0], str):
        kind, table, literals = "const char *", "const char *const ", [_text(str(label)) for label in labels]
    else:
        short = all(abs(int(label)) < 2**31 for label in labels)  # fits into a long of any compiler
        kind = "long " if short else "long long "
        table, suffix = f"const {kind}", "L" if short else "LL"
        # C has no negative literals, and -2**63 has no positive counterpart.
        literals = [
            f"{label}{suffix}" if int(label) > -(2**63) else f"({int(label) + 1}LL - 1)" for label in labels
        ]
    return LABEL.format(type=kind, table=table, labels=", ".join(literals), **names)


def _text(label: str) -> str:
    """Return a UTF-8 string literal. Characters that C may interpret, like ? and quotes, are escaped."""
    plain = re.compile(rb"[A-Za-z0-9 _.,:;+*/<=>()\[\]{}|~^$#@!&'-]")
    pieces = [chr(byte) if plain.match(bytes([byte])) else f"\\{byte:03o}" for byte in label.encode()]
    return f'"{"".join(pieces)}"'
