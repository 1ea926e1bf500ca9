"""Models for where Python is not: `onnx` for services and phones, `c` for microcontrollers.

What is exported answers and does not learn. It computes in float32, whatever the model learned in, and takes
the rows that the model takes: what scales or encodes them before is to be done there, too.

=====================================  ==========  =========
model                                  `onnx`      `c`
=====================================  ==========  =========
linear learners                        yes         yes
kernel learners: rbf, linear, poly     yes         yes
kernel learners: laplacian,            no          yes
allsubsets
`AveragedClassifier` of these          yes         yes
`CalibratedClassifier` of these        yes         yes
=====================================  ==========  =========

All else is refused with the reason. `docs/deployment.md` shows how the files are used.
"""

from budgetron.export._c import c
from budgetron.export._onnx import onnx

__all__ = ["c", "onnx"]
