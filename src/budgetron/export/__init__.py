"""Export models to run without Python: `onnx` for services and phones, `c` for microcontrollers.

An exported model predicts but does not learn. It computes in float32, also if the model learned in float64.
It takes the same rows as the model: scaling or encoding that comes before the model must be done by the
caller. A `BudgetClassifier` is exported as it is at that moment, with its own scaling of the features.

=====================================  ==========  =========
model                                  `onnx`      `c`
=====================================  ==========  =========
linear learners                        yes         yes
kernel learners: rbf, linear, poly     yes         yes
kernel learners: laplacian,            no          yes
allsubsets
`SecondOrderProjectron` with these     as above    yes
kernels, with or without linear part
`AveragedClassifier` of these          yes         yes
`BudgetClassifier`                     yes         yes
`CalibratedClassifier` of these        yes         yes
=====================================  ==========  =========

Other models raise an error that states the reason. `docs/deployment.md` shows how to use the files.

A scikit-learn `Pipeline` of such a model is exported with its scalers (`StandardScaler`, `MinMaxScaler`,
`MaxAbsScaler`, `RobustScaler`) and a `OneHotEncoder` of numbers: the exported model then takes the rows of
the pipeline.
"""

from budgetron.export._c import c
from budgetron.export._onnx import onnx

__all__ = ["c", "onnx"]
