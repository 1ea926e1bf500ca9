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
      |  x_1 ... x_b   |                        |  rows, feature by feature |
      |  a matrix, or  |                        |  norms, k(s, s)           |
      |  its non-zeros |                        |  order: oldest -> newest  |
      +-------+--------+                        +------------+--------------+
              |                                              |
              +----------------------+-----------------------+
                                     |  one matrix product, or a step
                                     v  for each non-zero; then exp, power, ...
                            +------------------+     for row i = 1 .. b:
                            | K   b x slots    |
                            | kernel values    |-----> margin = factor * <K[i], coef>
                            |                  |       the label is seen
                            +--------+---------+       rule: update?  -- no --> next row
                                     ^                   | yes
              x_i now lives          |                   v
              in slot s:             |              add, shrink, remove, shift
              K[j, s] = k(x_i, x_j) -+              (coefficients, tail, norm)
              for j > i

The kernel values of the block are finished at once, by as many threads as the caller allows
(`crew`): they are all that costs. A row that becomes a support is then compared with the rest of
its block, and with nothing else. A block is as long as fits the cache; a single round (`play`) is
a block of one. Where a rule wants to look over its supports between rounds (`exchange`), the block ends.

How rows are kept
-----------------
A slab lies feature by feature. So a block of dense rows meets it in one matrix product; a sparse
row in one step for each of its non-zeros, along numbers that lie side by side; and a row of two
or three features in registers. Which of these a block takes is decided block by block, by its
zeros (`rows`), whether it came as a matrix or not. Where rows are CSR and very wide, slabs keep
their non-zeros alone, and each of a support's non-zeros meets those of the block with the same
feature. That is decided once, by the first batch (`budgetron._base.kernel_classifier`).

Three rooms
-----------
`kernel`      Kernel values between rows and supports. Knows no coefficient.
`supports`    The slab: slots, rows, ages. Knows no label. (`rows` are those on their way in.)
`rule`        The hypothesis over the slots and the moves that change it; an algorithm is a
              subclass (see `budgetron.kernelized`). Knows no feature, nor whether rows were sparse
              or single precision.

`linear` is the other kind of learner: a weight a feature and no slab, so that rules and rounds
are one room. `history` is what both may keep of hypotheses that are gone.

`projection` is what the Projectron adds to a rule, `gaussian` what its second-order kin does, and `turn` what
both are turned by where supports leave. `rounds` joins the rooms and plays,
`together` plays several learners over the same rows, `distances` are what learners whose kernels differ in
width alone may have in common, and `simd.c` holds the loops that the
compiler turns into vector instructions, several versions of each, chosen when the library is loaded.

Numbers
-------
Rows, kernel values and norms are in the precision of the rows, coefficients and all sums
over them in float64. State is NumPy arrays only, allocated when the model starts (or, for
learners without a budget, by half as much again): `nbytes` is the sum of their sizes, pickling is plain,
and nothing is hidden. Large ones have pages of their own (`pages`). The interpreter lock is released while a
batch is learned; it is taken back where a slab must grow and where the kernel is a Python function.
"""
