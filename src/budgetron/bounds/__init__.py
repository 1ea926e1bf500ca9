"""The theorems: every mistake, regret and risk bound of the papers as a function of its quantities.

In all of them `norm` is ||g|| of the competitor, `losses` the sum of its hinge losses
max(0, 1 - y g(x)) over the stream, and `radius` the largest ||x||, or sqrt(k(x, x)).

The assumptions of a theorem are checked; `AssumptionError` is raised if one does not hold. With
``check=False`` the function returns the value of the formula, NaN where it is undefined, although no theorem
supports it. If `check` is a list, each assumption is appended to it as an `Assumption`, and no error is
raised. `THEOREMS` lists all theorems, as does the page *The theorems* of the documentation.

The papers: "Forgetron paper" is Dekel, Shalev-Shwartz, Singer: The Forgetron (2008). "Projectron paper" is
Orabona, Keshet, Caputo: The Projectron (2008). "Sutskever's paper" is A simpler unified analysis of Budget
Perceptrons (2009). "Mohri et al." is Mohri, Rostamizadeh, Talwalkar: Foundations of Machine Learning,
chapter 8. "CS269 notes" are lecture notes on the Perceptron (2010).

Examples
--------
>>> from budgetron import bounds
>>> bounds.perceptron(norm=3.0, losses=10.0)
29.0
>>> bounds.forgetron(norm=3.0, losses=10.0, budget=50)
Traceback (most recent call last):
    ...
budgetron.bounds.AssumptionError: a budget of at least 83 is assumed; it is 50
"""

from budgetron.bounds._statement import ROUNDING as ROUNDING
from budgetron.bounds._statement import THEOREMS, Assumption, AssumptionError, Theorem
from budgetron.bounds._statement import Check as Check
from budgetron.bounds._statement import assume as assume

# The order of these imports is the order of `THEOREMS`.
# isort: split
from budgetron.bounds._perceptron import (
    majority_perceptron,
    margin_perceptron,
    normalized_perceptron,
    perceptron,
    perceptron_l1,
    perceptron_l1_infimum,
    perceptron_l1_loose,
    perceptron_l2,
    perceptron_l2_infimum,
    perceptron_separable,
    winnow,
    winnow_general,
)

# isort: split
from budgetron.bounds._budget import (
    ahpatron,
    ahpatron_ledger,
    forgetron,
    forgetron_ledger,
    log_shrinking,
    norm_limit,
    projectron,
    projectron_norm_bound,
    projectron_plus_plus,
    projectron_root,
    removals_at_any_time,
    remove_oldest,
    shared_budget,
    shrinking_perceptron,
)

# isort: split
from budgetron.bounds._drift import (
    drift_limit,
    gradient_descent,
    modified_randomized_budget,
    modified_randomized_budget_general,
    randomized_budget,
    shifting_perceptron,
    simplified_forgetron,
    simplified_forgetron_general,
    simplified_forgetron_ledger,
)

# isort: split
from budgetron.bounds._descent import online_gradient_descent

# isort: split
from budgetron.bounds._second_order import (
    second_order,
    second_order_gain,
    second_order_logistic,
    second_order_rows,
)

# isort: split
from budgetron.bounds._regression import (
    fixed_share_squares,
    pa_ii_regression,
    pa_regression,
    vovk_azoury_warmuth,
)

# isort: split
from budgetron.bounds._alarms import ALARM_STEP as ALARM_STEP
from budgetron.bounds._alarms import false_alarms
from budgetron.bounds._conformal import conformal_deviation, conformal_misses

# isort: split
from budgetron.bounds._experts import (
    exponential_weights,
    exponential_weights_anytime,
    exponential_weights_doubling,
    fixed_share,
    fixed_share_rates,
    halving,
    polynomial_weights,
    prod,
    prod_doubling,
    prod_general,
    prod_second_order,
    randomized_weighted_majority,
    randomized_weighted_majority_doubling,
    randomized_weighted_majority_tuned,
    weighted_majority,
)

# isort: split
from budgetron.bounds._limits import (
    best_possible,
    budget_norm_limit,
    coin_flips,
    contradicted,
    exponential_updates,
)

# isort: split
from budgetron.bounds._batch import (
    averaged_risk,
    averaged_risk_by_regret,
    exponential_weights_risk,
    game_gap,
    leave_one_out,
    penalized_perceptron_risk,
    penalized_risk,
    perceptron_trace,
)

__all__ = [
    "THEOREMS",
    "Assumption",
    "AssumptionError",
    "Theorem",
    "ahpatron",
    "ahpatron_ledger",
    "averaged_risk",
    "averaged_risk_by_regret",
    "best_possible",
    "budget_norm_limit",
    "coin_flips",
    "conformal_deviation",
    "conformal_misses",
    "contradicted",
    "drift_limit",
    "exponential_updates",
    "exponential_weights",
    "exponential_weights_anytime",
    "exponential_weights_doubling",
    "exponential_weights_risk",
    "false_alarms",
    "fixed_share",
    "fixed_share_rates",
    "fixed_share_squares",
    "forgetron",
    "forgetron_ledger",
    "game_gap",
    "gradient_descent",
    "halving",
    "leave_one_out",
    "log_shrinking",
    "majority_perceptron",
    "margin_perceptron",
    "modified_randomized_budget",
    "modified_randomized_budget_general",
    "norm_limit",
    "normalized_perceptron",
    "online_gradient_descent",
    "pa_ii_regression",
    "pa_regression",
    "penalized_perceptron_risk",
    "penalized_risk",
    "perceptron",
    "perceptron_l1",
    "perceptron_l1_infimum",
    "perceptron_l1_loose",
    "perceptron_l2",
    "perceptron_l2_infimum",
    "perceptron_separable",
    "perceptron_trace",
    "polynomial_weights",
    "prod",
    "prod_doubling",
    "prod_general",
    "prod_second_order",
    "projectron",
    "projectron_norm_bound",
    "projectron_plus_plus",
    "projectron_root",
    "randomized_budget",
    "randomized_weighted_majority",
    "randomized_weighted_majority_doubling",
    "randomized_weighted_majority_tuned",
    "removals_at_any_time",
    "remove_oldest",
    "second_order",
    "second_order_gain",
    "second_order_logistic",
    "second_order_rows",
    "shared_budget",
    "shifting_perceptron",
    "shrinking_perceptron",
    "simplified_forgetron",
    "simplified_forgetron_general",
    "simplified_forgetron_ledger",
    "vovk_azoury_warmuth",
    "weighted_majority",
    "winnow",
    "winnow_general",
]
