"""The compiled core: kernels, supports and rounds.

How a batch flows through it
----------------------------
An online learner sees one row at a time: it predicts, is told the label, perhaps
changes. Done literally, each round is a product of the row with all supports, a
matrix-vector product that moves the whole slab through the processor to use every
number once. But a batch handed to `partial_fit` is known in advance; only the labels
are revealed one at a time. So all inner products that the rounds can need are computed
first, as matrix products, and the rounds then run on those numbers. The result is
the hypothesis of the single rounds, after every round; only the arithmetic is
arranged otherwise.

::

        block of b rows                          the slab: one slot a support
      +----------------+                        +---------------------------+
      |  x_1 ... x_b   |                        |  rows, norms, k(s, s)     |
      +-------+--------+                        |  order: oldest -> newest  |
              |                                 +------------+--------------+
              |            cross: one GEMM                   |
              +----------------------+-----------------------+
              | among: one SYRK      |
              v                      v
      +--------------+      +------------------+     for row i = 1 .. b:
      | C   b x b    |      | K   b x slots    |
      | raw values   |      | raw values       |-----> finish row i    (exp, power, ...)
      | row by row   |      |                  |       margin = factor * <K[i], coef>
      +------+-------+      +--------+---------+       the label is seen
             |                       ^                 rule: update?  -- no --> next row
             |   x_i now lives       |                   | yes
             |   in slot s:          |                   v
             +--- K[j, s] = C[i, j] -+            add, shrink, remove, shift
                  for j > i                       (coefficients, tail, norm)

Raw values are inner products (or distances, or whatever a callable returns); `finish` turns
one row of them into kernel values when its round comes, with the slots' norms as they are by then.
That is why a new support costs the rest of the block one column of copies and no
exponential, and why each exponential is taken exactly once. A block is as long as fits
the cache; a single round (`play`) is a block of one.

Three rooms
-----------
`kernel`      Kernel values between blocks of rows. Knows no coefficient.
`supports`    The slab: slots, rows, ages. Knows no label.
`rule`        The hypothesis over the slots and the moves that change it; an algorithm is a
              subclass (see `budgetron.kernelized`). Knows no feature, nor whether rows were sparse
              or single precision.

`linear` is the other kind of learner: a weight a feature and no slab, so that rules and rounds
are one room. `history` is what both may keep of hypotheses that are gone.

`projection` is what the Projectron adds to a rule, `rounds` joins the rooms and plays, and
`simd.c` holds the loops that the compiler turns into vector instructions, several versions
of each, chosen when the library is loaded.

Numbers
-------
Rows, kernel values and norms are in the precision of the rows, coefficients and all sums
over them in float64. State is NumPy arrays only, allocated when the model starts (or, for
learners without a budget, by half as much again): `nbytes` is the sum of their sizes, pickling is plain,
and nothing is hidden. The interpreter lock is released while a batch is learned; it is taken back
where a slab must grow and where the kernel is a Python function.
"""
