"""The base estimators: everything about a learner that is not its algorithm.

Internal. The learners build on it. It imports `_core`, `_util` and `kernels` only.

=====================  ============================================================================
`protocol`             `Hypothesis`: what every hypothesis can do, whatever it is made of
`online_classifier`    `OnlineClassifier`: scikit-learn's interface over hypotheses
`kernel_classifier`    the same for kernel learners: kernel parameters and supports
`linear_classifier`    the same for linear learners: weights
`weighted_classifier`  sample weights and class weights
`learner_wrapper`      classifiers around another learner
`batches`, `trace`     the input and the results of a batch
`compiled_state`       the state of compiled learners, checked before it is used
=====================  ============================================================================
"""
