"""C code of the scores of experts, and of margins from them, as `_core.combination` computes them."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from budgetron.export._c_scores import integers, literal, table
from budgetron.export._scores import (
    LARGEST_U,
    SMALL_EXPONENT,
    VISIBLE_LEAD,
    Combined,
    Expansion,
    ExpertScores,
    Scaling,
    gamma_and_coef0,
    single,
)
from budgetron.portfolio._frozen import LEAD, TIE

__all__ = ["combination_functions"]

# Votes are whole numbers, so that their sums are exact: the whole of all shares is 2^50.
WHOLE = 2**50
# In float32, the exponential function is 0 below this exponent.
LOWEST_IN_FLOAT32 = -104.0
# Before the first support, the lift is larger than any that is needed.
LARGEST_LIFT = 1e30

STANDARDISE = """
/* Features minus their mean, and standardised by the rows that were learned and by x itself. */
static inline void {name}_standardise(const float *x, float *centred, float *z)
{{
    for (int i = 0; i < {NAME}_FEATURES; i++) {{
        float u;
        centred[i] = x[i] - {name}_scaling[i][0];
        u = (centred[i] - {name}_scaling[i][1]) / {name}_scaling[i][2];
        u = u < -{largest} ? -{largest} : u > {largest} ? {largest} : u;
        z[i] = {factor} * u / sqrtf(1.0f + {bend} * u * u);
    }}
}}
"""

LINEAR = """
/* The linear part of an expert. */
static inline void {name}_linear(const float *x, const float slopes[][{NAME}_FEATURES],
                                 const float *constants, float *scores)
{{
    for (int c = 0; c < {NAME}_OUTPUTS; c++) {{
        scores[c] = constants[c];
        for (int i = 0; i < {NAME}_FEATURES; i++)
            scores[c] += slopes[c][i] * x[i];
    }}
}}
"""

KERNEL = """
static inline float {name}_square(const float *x, const float *s)
{{
    float value = 0.0f;
    for (int i = 0; i < {NAME}_FEATURES; i++) {{
        const float difference = x[i] - s[i];
        value += difference * difference;
    }}
    return value;
}}

/* Adds a support with the kernel value exp(exponent). If all values are too small for float32, they have a
 * common factor exp(lift), so that the sign and the order of the scores are right. */
static inline void {name}_add(float exponent, float lowest, const float *coef, float *lift, float *scores)
{{
    const float needed = exponent < {small} ? {small} - exponent : 0.0f;
    if (exponent < lowest)
        return; /* the value is 0 */
    if (needed < *lift) {{
        const float factor = expf(needed - *lift);
        for (int c = 0; c < {NAME}_OUTPUTS; c++)
            scores[c] *= factor;
        *lift = needed;
    }}
    const float value = expf(exponent + *lift);
    for (int c = 0; c < {NAME}_OUTPUTS; c++)
        scores[c] += coef[c] * value;
}}
"""

SUMS = """
/* The kernel experts that see rows in this form: expert {experts}. */
static inline void {name}_sums{view}(const float *x, float scores[][{NAME}_OUTPUTS])
{{
    {variables}
    for (int j = 0; j < {n}; j++) {{
        const float square = {name}_square(x, {name}_supports{view}[j]);{lines}
    }}
}}
"""

SCORES = """
static inline void {name}_scores(const float *x, float scores[{NAME}_EXPERTS][{NAME}_OUTPUTS])
{{{lines}
}}
"""

DECISIONS = """
/* The class that scores stand for. */
static inline int {name}_choice(const float *scores)
{{
    int best = {NAME}_OUTPUTS == 1 && scores[0] > 0.0f;
    for (int c = 1; c < {NAME}_OUTPUTS; c++) {{
        if (scores[c] > scores[best])
            best = c;
    }}
    return best;
}}

/* The values of decision_function. Combiners are linear in tanh(score); combiners and experts vote. */
static inline void {name}_decisions(const float x[{NAME}_FEATURES], float scores[{NAME}_OUTPUTS])
{{
    float experts[{NAME}_EXPERTS][{NAME}_OUTPUTS], combiners[{NAME}_COMBINERS][{NAME}_OUTPUTS];
    long long votes[{NAME}_CLASSES] = {{0}};
    int winner;
    {name}_scores(x, experts);
    for (int r = 0; r < {NAME}_COMBINERS; r++) {{
        for (int c = 0; c < {NAME}_OUTPUTS; c++)
            combiners[r][c] = {name}_constants[r][c];
    }}
    for (int e = 0; e < {NAME}_EXPERTS; e++) {{
        for (int c = 0; c < {NAME}_OUTPUTS; c++) {{
            const float bounded = tanhf(experts[e][c]);
            for (int r = 0; r < {NAME}_COMBINERS; r++)
                combiners[r][c] += {name}_weights[r * {NAME}_OUTPUTS + c][e] * bounded;
        }}
    }}
    for (int r = 0; r < {NAME}_COMBINERS; r++)
        votes[{name}_choice(combiners[r])] += {name}_shares[r];
    for (int e = 0; e < {NAME}_EXPERTS; e++)
        votes[{name}_choice(experts[e])] += {name}_shares[{NAME}_COMBINERS + e];
    winner = {name}_choice(combiners[0]); /* decides a tie */
    for (int c = 0; c < {NAME}_CLASSES; c++) {{
        if (votes[c] > votes[winner] + {tie})
            winner = c;
    }}
    for (int c = 0; c < {NAME}_OUTPUTS; c++) {{
        scores[c] = 0.0f;
        for (int r = 0; r < {NAME}_COMBINERS; r++)
            scores[c] += {name}_blend[r] * combiners[r][c];
        scores[c] = tanhf(scores[c]);
    }}{margins}{log_odds}
}}
"""

TWO_MARGINS = """
    const float lead = (float)(2 * votes[1] - {whole}) * {unit};
    if (winner)
        scores[0] = (lead > {lead} ? lead : {lead}) * (0.55f + 0.45f * scores[0]);
    else
        scores[0] = (lead < -{lead} ? lead : -{lead}) * (0.55f - 0.45f * scores[0]);"""

MORE_MARGINS = """
    float most = -2.0f;
    for (int c = 0; c < {NAME}_OUTPUTS; c++) {{
        scores[c] = (float)votes[c] * {unit} - 0.5f + 0.5f * scores[c];
        if (c != winner && scores[c] > most)
            most = scores[c];
    }}
    if (scores[winner] < most + {visible})
        scores[winner] = most + {visible};"""


def combination_functions(combined: Combined, after: str, names: dict[str, str]) -> list[str]:
    """Return the tables and functions of the margins; the function of the margins ends with `after`."""
    name, NAME = names["name"], names["NAME"]
    experts, combiners = len(combined.experts), len(combined.blend)
    parts = [f"#define {NAME}_EXPERTS {experts}\n#define {NAME}_COMBINERS {combiners}\n"]
    if combined.scaling is not None:
        parts += _standardise(combined.scaling, names)
    parts += _experts(combined, names)
    weights = combined.weights.reshape(-1, experts)
    for values, what in (
        (weights, f"weights[{NAME}_COMBINERS * {NAME}_OUTPUTS][{NAME}_EXPERTS]"),
        (combined.constants, f"constants[{NAME}_COMBINERS][{NAME}_OUTPUTS]"),
        (combined.blend, f"blend[{NAME}_COMBINERS]"),
    ):
        parts.append(table(f"{name}_{what}", single(values, "weights of the combiners")))
    shares = np.rint(combined.shares * WHOLE).astype(np.int64)
    size = f"{NAME}_COMBINERS + {NAME}_EXPERTS"
    parts.append("\n/* The weights of the votes, in units of 2^-50. */")
    parts.append(integers("long long", f"{name}_shares[{size}]", shares, "LL"))
    lines = TWO_MARGINS if combined.outputs == 1 else MORE_MARGINS
    margins = lines.format(
        whole=f"{WHOLE}LL",
        unit=literal(1.0 / WHOLE),
        lead=literal(LEAD),
        visible=literal(VISIBLE_LEAD),
        **names,
    )
    tie = f"{round(TIE * WHOLE)}LL"
    parts.append(DECISIONS.format(tie=tie, margins=margins, log_odds=after.format(**names), **names))
    return parts


def _standardise(scaling: Scaling, names: dict[str, str]) -> list[str]:
    numbers = np.column_stack([scaling.high, scaling.low, scaling.deviation])
    return [
        "\n/* Of each feature: the mean, its part below the precision of float32, and the deviation. */",
        table("{name}_scaling[{NAME}_FEATURES][3]".format(**names), single(numbers, "deviations")),
        STANDARDISE.format(
            largest=literal(LARGEST_U), factor=literal(scaling.factor), bend=literal(scaling.bend), **names
        ),
    ]


def _experts(combined: Combined, names: dict[str, str]) -> list[str]:
    """Return the tables of the experts, and the function that computes their scores."""
    name, features = names["name"], f"{names['NAME']}_FEATURES"
    parts, lines = [LINEAR.format(**names)], []
    if any(expert.scores.expansion is not None for expert in combined.experts):
        parts.append(KERNEL.format(small=literal(SMALL_EXPONENT), **names))
    if combined.scaling is not None:
        lines += [f"float centred[{features}], z[{features}];", f"{name}_standardise(x, centred, z);"]
    for view, experts in enumerate(_views(combined.experts)):
        first = experts[0][1]
        row = "x" if combined.scaling is None else "z" if first.standardised else "centred"
        if first.scales is not None:
            scales, scaled = f"{name}_scales{view}", f"scaled{view}"
            parts.append(table(f"{scales}[{features}]", single(first.scales, "scales")))
            lines.append(f"float {scaled}[{features}];")
            lines.append(f"for (int i = 0; i < {features}; i++)")
            lines.append(f"    {scaled}[i] = {row}[i] * {scales}[i];")
            row = scaled
        for place, expert in experts:
            parts += _linear_tables(place, expert, names)
            lines += _linear_lines(place, expert, row, names)
        kernels = [
            (place, expert.scores.expansion)
            for place, expert in experts
            if expert.scores.expansion is not None
        ]
        if kernels:
            parts += _sums(view, kernels, names)
            lines.append(f"{name}_sums{view}({row}, scores);")
    parts.append(SCORES.format(lines="".join(f"\n    {line}" for line in lines), **names))
    return parts


def _views(experts: list[ExpertScores]) -> list[list[tuple[int, ExpertScores]]]:
    """Return the experts with their places, those that see rows in the same form together."""
    views: dict[object, list[tuple[int, ExpertScores]]] = {}
    for place, expert in enumerate(experts):
        scales = b"" if expert.scales is None else expert.scales.tobytes()
        views.setdefault((expert.standardised, scales), []).append((place, expert))
    return list(views.values())


def _linear_tables(place: int, expert: ExpertScores, names: dict[str, str]) -> Iterator[str]:
    slopes, constants = expert.scores.slopes, expert.scores.intercepts
    if slopes is not None:
        name, outputs = names["name"], f"{names['NAME']}_OUTPUTS"
        constants = np.zeros(expert.scores.outputs) if constants is None else constants
        shape = f"[{outputs}][{names['NAME']}_FEATURES]"
        yield table(f"{name}_slopes{place}{shape}", single(slopes, "weights"))
        yield table(f"{name}_intercepts{place}[{outputs}]", single(constants, "intercepts"))


def _linear_lines(place: int, expert: ExpertScores, row: str, names: dict[str, str]) -> list[str]:
    """Return the lines that set the scores of an expert to its linear part."""
    if expert.scores.slopes is None:
        loop = f"for (int c = 0; c < {names['NAME']}_OUTPUTS; c++)"
        return [loop, f"    scores[{place}][c] = 0.0f;"]
    name = names["name"]
    return [f"{name}_linear({row}, {name}_slopes{place}, {name}_intercepts{place}, scores[{place}]);"]


def _sums(view: int, kernels: list[tuple[int, Expansion]], names: dict[str, str]) -> Iterator[str]:
    """Yield the supports of experts that see the same rows, their coefficients, and the function."""
    name, rows = names["name"], kernels[0][1].rows
    supports = f"{name}_supports{view}[{len(rows)}][{names['NAME']}_FEATURES]"
    yield table(supports, single(rows, "supports"))
    variables, lines = [], []
    for place, expansion in kernels:
        n, coef = expansion.coef.shape[1], f"{name}_coef{place}"
        yield table(f"{coef}[{n}][{names['NAME']}_OUTPUTS]", single(expansion.coef.T, "coefficients"))
        index, indent = "j", ""
        if expansion.slots is not None:
            slots, index, indent = f"{name}_slots{place}", f"next{place}++", "    "
            kind = "unsigned short" if len(rows) <= 0xFFFF else "unsigned long"
            yield integers(kind, f"{slots}[{n}]", expansion.slots)
            variables.append(f"int next{place} = 0;")
            lines.append(f"if (next{place} < {n} && (int){slots}[next{place}] == j)")
        lines.append(indent + _add(place, expansion, index, names))
        # Beside a linear part, no common factor is needed.
        lift = 0.0 if expansion.lowest is None else LARGEST_LIFT
        variables.append(f"float lift{place} = {literal(lift)};")
    yield SUMS.format(
        experts=", ".join(str(place) for place, _ in kernels),
        variables="\n    ".join(variables),
        view=view,
        n=len(rows),
        lines="".join(f"\n        {line}" for line in lines),
        **names,
    )


def _add(place: int, expansion: Expansion, index: str, names: dict[str, str]) -> str:
    """Return the line that adds a support to the scores of an expert."""
    gamma, _ = gamma_and_coef0(expansion.kernel)
    lowest = LOWEST_IN_FLOAT32 if expansion.lowest is None else expansion.lowest
    exponent, name = f"-{literal(gamma)} * square", names["name"]
    target = f"&lift{place}, scores[{place}]"
    return f"{name}_add({exponent}, {literal(lowest)}, {name}_coef{place}[{index}], {target});"
