"""The base estimators: everything about a learner that is not its algorithm.

Internal. The learners build on it. It imports `_core`, `_util`, `kernels` and `bounds` only.

=====================  ============================================================================
`protocol`             `Hypothesis`: what every hypothesis can do, whatever it is made of
`parameters`           checks of parameters
`fitted_estimator`     the fitted state of an estimator, its checks, pickling
`rounds`               batches and single rounds
`class_admission`      classes and features that appear later
`online_classifier`    `OnlineClassifier`: scikit-learn's interface over hypotheses
`kernel_classifier`    the same for kernel learners: kernel parameters and supports
`linear_classifier`    the same for linear learners: weights
`weighted_classifier`  sample weights and class weights
`loss_classifier`      losses, forgetting and probabilities of the second-order learners
`mergeable`            models that learned different rows, merged; `delta` and `natural` are its parts
`unmergeable`          why other models cannot be merged
`learner_wrapper`      classifiers around another learner
`sizes`                bytes of a hypothesis that does not exist yet
`theorems`             how a learner declares its theorems
`large_values`         errors about values that are too large
`batches`, `trace`     the input and the results of a batch
`past_hypotheses`      all hypotheses of a run, from a journal
`compiled_state`       compiled hypotheses from outside state, checked; `part_state` for their parts
`access`               functions by which other packages reach into estimators
=====================  ============================================================================
"""
