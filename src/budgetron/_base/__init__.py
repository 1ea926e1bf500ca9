"""The base estimators: everything about a learner that is not its algorithm.

Internal. The learners build on it. It imports `_core`, `_util`, `kernels` and `bounds` only.

=====================  ============================================================================
`protocol`             `Hypothesis`: what every hypothesis can do, whatever it is made of
`parameters`           checks of parameters
`fitted_estimator`     the fitted state of an estimator, its checks, pickling
`row_player`           rows, and the rounds of a batch
`class_state`          the classes of a classifier
`rounds`               batches and single rounds of classification
`class_admission`      classes and features that appear later
`online_classifier`    `OnlineClassifier`: scikit-learn's interface over hypotheses
`kernel_estimator`     what all kernel learners have: kernel parameters and supports
`kernel_classifier`    kernel learners that are classifiers
`linear_estimator`     what all linear learners have: weights
`linear_classifier`    linear learners that are classifiers
`online_regressor`     `OnlineRegressor`: scikit-learn's interface of regressors over hypotheses
`kernel_regressor`     kernel learners that are regressors
`linear_regressor`     linear learners that are regressors: an intercept
`online_detector`      `OnlineDetector`: scikit-learn's interface of detectors of unusual rows
`alarms`               the threshold of the detectors
`gaussian_regressor`   standard deviations of the second-order regressors
`weighted_classifier`  sample weights and class weights
`loss_classifier`      losses, forgetting and probabilities of the second-order learners
`mergeable`            models that learned different rows, merged; `delta` and `natural` are its parts
`unmergeable`          why other models cannot be merged
`learner_wrapper`      classifiers around another learner
`sizes`                bytes of a hypothesis that does not exist yet
`theorems`             how a learner declares its theorems; `regression_theorems` for regressors
`large_values`         errors about values that are too large
`batches`, `trace`     the input and the results of a batch; `regression_trace` for regressors,
                       `detection_trace` for detectors
`past_hypotheses`      all hypotheses of a run, from a journal
`compiled_state`       compiled hypotheses from outside state, checked; `part_state` for their parts
`access`               functions by which other packages reach into estimators
=====================  ============================================================================
"""
