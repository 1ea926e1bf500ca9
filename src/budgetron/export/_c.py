"""Export models as C headers, for systems that have only a C compiler."""

from __future__ import annotations

import os
import re
from importlib.metadata import version
from typing import overload

import numpy as np
from numpy.typing import NDArray

from budgetron._core.kernel import Kernel
from budgetron._util.atomic import atomic_write
from budgetron.export._scores import (
    LARGEST_Z,
    Expansion,
    Predictor,
    Scores,
    gamma_and_coef0,
    predictor_of,
    single,
)
from budgetron.kernels import NAMES

__all__ = ["c"]

Path = str | os.PathLike[str]

NUMBERS_PER_LINE = 6

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

KERNEL = """
/* {formula} */
static inline float {name}_kernel(const float *x, const float *s)
{{
    float value = {start};
    for (int i = 0; i < {NAME}_FEATURES; i++) {{
        {step}
    }}
    {finish}
}}
"""

# For each kernel: its formula, the initial value, the step for one feature, and the result
KERNEL_LINES = {
    "rbf": (
        "exp(-gamma ||x - s||^2)",
        "0.0f",
        "const float difference = x[i] - s[i];\n        value += difference * difference;",
        "return expf(-{gamma} * value);",
    ),
    "laplacian": (
        "exp(-gamma sum_i |x_i - s_i|)",
        "0.0f",
        "value += fabsf(x[i] - s[i]);",
        "return expf(-{gamma} * value);",
    ),
    "poly": (
        "(gamma <x, s> + coef0) ** degree",
        "0.0f",
        "value += x[i] * s[i];",
        """\
value = {gamma} * value + {coef0};
    float power = 1.0f;
    for (unsigned long n = {degree}UL; n > 0; n /= 2, value *= value) {{
        if (n % 2)
            power *= value;
    }}
    return power;""",
    ),
    "allsubsets": ("prod_i (1 + x_i s_i)", "1.0f", "value *= 1.0f + x[i] * s[i];", "return value;"),
}

SCORES = """
/* The values of decision_function. */
static inline void {name}_decisions(const float x[{NAME}_FEATURES], float scores[{NAME}_OUTPUTS])
{{
    for (int c = 0; c < {NAME}_OUTPUTS; c++) {{
        scores[c] = {start};{slopes}
    }}{sums}{log_odds}
}}
"""

SLOPES = """
        for (int i = 0; i < {NAME}_FEATURES; i++)
            scores[c] += {name}_slopes[c][i] * x[i];"""

SUMS = """
    for (int j = 0; j < {NAME}_SUPPORTS; j++) {{
        const float value = {name}_kernel(x, {name}_supports[j]);
        for (int c = 0; c < {NAME}_OUTPUTS; c++)
            scores[c] += {name}_coef[j][c] * value;
    }}"""

TO_LOG_ODDS = """
    for (int c = 0; c < {NAME}_OUTPUTS; c++)
        scores[c] = {name}_log_odds(scores[c], c);"""

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

TWO_PROBABILITIES = """
/* The probability of each class. */
static inline void {name}_probabilities(const float x[{NAME}_FEATURES], float p[{NAME}_CLASSES])
{{
    const float odds = {name}_decision(x);
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
def c(model: object, path: Path | None = None, name: str = "model") -> str | None:
    """Export a model as a C header.

    Use it for microcontrollers and other systems that have only a C compiler. The header needs C99 and no
    library except ``<math.h>``, of which it uses single-precision functions like ``expf``.

    Parameters
    ----------
    model : estimator
        A fitted linear learner, a kernel learner with a kernel given by name, or an `AveragedClassifier` or
        `CalibratedClassifier` of such a learner.
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
      `CalibratedClassifier`, or a `SecondOrderProjectron` with the logistic loss.

    They agree with the model to float32 accuracy. The tables have 4 bytes per number: n_features + n_outputs
    numbers per support, or n_features numbers per output for linear learners and the kernel "linear". The
    linear part of a `SecondOrderProjectron` adds n_features + 1 numbers per output.

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
    scores, expansion = predictor.scores, predictor.scores.expansion
    names = {"name": name, "NAME": name.upper()}
    exponential = expansion is not None and expansion.kernel.name in ("rbf", "laplacian")
    parts = [
        HEAD.format(
            model=model,
            version=version("budgetron"),
            classes=len(predictor.labels),
            features=scores.features,
            outputs=scores.outputs,
            what=_description(scores),
            include="\n#include <math.h>\n" if exponential or predictor.probabilities else "",
            **names,
        )
    ]
    if expansion is not None:
        parts.append(f"#define {name.upper()}_SUPPORTS {expansion.coef.shape[1]}\n")
    if predictor.sigmoids is not None:
        sigmoids = single(predictor.sigmoids, "sigmoids")
        parts.append(_table(f"{name}_sigmoids[{name.upper()}_OUTPUTS][3]", sigmoids))
        parts.append(LOG_ODDS.format(largest=_literal(LARGEST_Z), **names))
    parts += _score_function(scores, TO_LOG_ODDS if predictor.sigmoids is not None else "", names)
    parts.append((TWO_CLASSES if scores.outputs == 1 else MORE_CLASSES).format(**names))
    if predictor.probabilities is not None:
        parts.append(_probabilities(predictor, names))
    parts.append(_label(predictor.labels, names))
    return "".join(parts)


def _description(scores: Scores) -> str:
    if scores.expansion is None:
        return "Linear"
    return f"Kernel {scores.expansion.kernel.name}" + (
        " and a linear part" if scores.slopes is not None else ""
    )


def _score_function(scores: Scores, after: str, names: dict[str, str]) -> list[str]:
    """Return the tables of the scores and the function that computes them, which ends with `after`."""
    parts, start, slopes, sums = [], "0.0f", "", ""
    if scores.intercepts is not None:
        start = "{name}_intercepts[c]".format(**names)
        table = "{name}_intercepts[{NAME}_OUTPUTS]".format(**names)
        parts.append(_table(table, single(scores.intercepts, "intercepts")))
    if scores.slopes is not None:
        slopes = SLOPES.format(**names)
        table = "{name}_slopes[{NAME}_OUTPUTS][{NAME}_FEATURES]".format(**names)
        parts.append(_table(table, single(scores.slopes, "weights")))
    if scores.expansion is not None:
        sums = SUMS.format(**names)
        parts += _supports_and_kernel(scores.expansion, names)
    text = SCORES.format(start=start, slopes=slopes, sums=sums, log_odds=after.format(**names), **names)
    return [*parts, text]


def _supports_and_kernel(expansion: Expansion, names: dict[str, str]) -> list[str]:
    """Return the supports, their coefficients, and the kernel."""
    supports = single(expansion.rows, "supports")
    coef = single(expansion.coef.T, "coefficients")
    return [
        _table("{name}_supports[{NAME}_SUPPORTS][{NAME}_FEATURES]".format(**names), supports),
        _table("{name}_coef[{NAME}_SUPPORTS][{NAME}_OUTPUTS]".format(**names), coef),
        _kernel(expansion.kernel, names),
    ]


def _probabilities(predictor: Predictor, names: dict[str, str]) -> str:
    if predictor.scores.outputs == 1:
        return TWO_PROBABILITIES.format(**names)
    how, logarithms = PROBABILITY_LINES[predictor.probabilities or "softmax"]
    return MORE_PROBABILITIES.format(how=how, logarithms=logarithms.format(**names), **names)


def _kernel(kernel: Kernel, names: dict[str, str]) -> str:
    formula, start, step, finish = KERNEL_LINES[kernel.name]
    gamma, coef0 = map(_literal, gamma_and_coef0(kernel))
    finish = finish.format(gamma=gamma, coef0=coef0, degree=kernel.degree)
    return KERNEL.format(formula=formula, start=start, step=step, finish=finish, **names)


def _literal(value: float) -> str:
    return f"{value:.8e}f"


def _table(declaration: str, values: NDArray[np.float32]) -> str:
    """Return the definition of a constant array of one or two dimensions."""
    rows = [_numbers(row) for row in np.atleast_2d(values).tolist()]
    body = f"    {rows[0]}\n" if values.ndim == 1 else "".join(f"    {{{row}}},\n" for row in rows)
    return f"\nstatic const float {declaration} = {{\n{body}}};\n"


def _numbers(row: list[float]) -> str:
    numbers = [_literal(value) for value in row]
    lines = [", ".join(numbers[i : i + NUMBERS_PER_LINE]) for i in range(0, len(numbers), NUMBERS_PER_LINE)]
    return ",\n     ".join(lines)


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
