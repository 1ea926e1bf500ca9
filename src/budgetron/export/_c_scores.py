"""C code of the scores of one learner, and tables of numbers."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from budgetron._core.kernel import Kernel
from budgetron.export._scores import Expansion, Scores, gamma_and_coef0, single

__all__ = ["integers", "literal", "score_function", "table"]

NUMBERS_PER_LINE = 6

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


def score_function(scores: Scores, after: str, names: dict[str, str]) -> list[str]:
    """Return the tables of the scores and the function that computes them, which ends with `after`."""
    parts, start, slopes, sums = [], "0.0f", "", ""
    if scores.intercepts is not None:
        start = "{name}_intercepts[c]".format(**names)
        declaration = "{name}_intercepts[{NAME}_OUTPUTS]".format(**names)
        parts.append(table(declaration, single(scores.intercepts, "intercepts")))
    if scores.slopes is not None:
        slopes = SLOPES.format(**names)
        declaration = "{name}_slopes[{NAME}_OUTPUTS][{NAME}_FEATURES]".format(**names)
        parts.append(table(declaration, single(scores.slopes, "weights")))
    if scores.expansion is not None:
        sums = SUMS.format(**names)
        parts.append(f"#define {names['NAME']}_SUPPORTS {len(scores.expansion.coef.T)}\n")
        parts += _supports_and_kernel(scores.expansion, names)
    text = SCORES.format(start=start, slopes=slopes, sums=sums, log_odds=after.format(**names), **names)
    return [*parts, text]


def _supports_and_kernel(expansion: Expansion, names: dict[str, str]) -> list[str]:
    """Return the supports, their coefficients, and the kernel."""
    supports = single(expansion.rows, "supports")
    coef = single(expansion.coef.T, "coefficients")
    return [
        table("{name}_supports[{NAME}_SUPPORTS][{NAME}_FEATURES]".format(**names), supports),
        table("{name}_coef[{NAME}_SUPPORTS][{NAME}_OUTPUTS]".format(**names), coef),
        _kernel(expansion.kernel, names),
    ]


def _kernel(kernel: Kernel, names: dict[str, str]) -> str:
    formula, start, step, finish = KERNEL_LINES[kernel.name]
    gamma, coef0 = map(literal, gamma_and_coef0(kernel))
    finish = finish.format(gamma=gamma, coef0=coef0, degree=kernel.degree)
    return KERNEL.format(formula=formula, start=start, step=step, finish=finish, **names)


def literal(value: float) -> str:
    """Return a float constant that is exact."""
    return f"{value:.8e}f"


def table(declaration: str, values: NDArray[np.float32]) -> str:
    """Return the definition of a constant array of one or two dimensions."""
    rows = [_numbers(row) for row in np.atleast_2d(values).tolist()]
    body = f"    {rows[0]}\n" if values.ndim == 1 else "".join(f"    {{{row}}},\n" for row in rows)
    return f"\nstatic const float {declaration} = {{\n{body}}};\n"


def integers(kind: str, declaration: str, values: NDArray[np.int64], suffix: str = "") -> str:
    """Return the definition of a constant array of whole numbers."""
    body = _lines([f"{value}{suffix}" for value in values.tolist()])
    return f"\nstatic const {kind} {declaration} = {{\n    {body}\n}};\n"


def _numbers(row: list[float]) -> str:
    return _lines([literal(value) for value in row])


def _lines(numbers: list[str]) -> str:
    lines = [", ".join(numbers[i : i + NUMBERS_PER_LINE]) for i in range(0, len(numbers), NUMBERS_PER_LINE)]
    return ",\n     ".join(lines)
