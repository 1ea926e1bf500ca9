"""The compiled core: kernels, supports, rules and rounds.

How a batch is learned
----------------------
An online learner sees one row at a time: it predicts, sees the label, and may update. Computed literally,
each round multiplies the row by all supports, and so reads the whole slab to use every number once. But the
rows of a batch passed to `partial_fit` are all known in advance; only the labels are revealed one at a time.
So all inner products that the rounds can need are computed first, as matrix products, and the rounds then use
these numbers. After each round, the hypothesis is the same as if the rows had been learned one by one.

::

        block of b rows                          the slab: one slot per support
      +----------------+                        +---------------------------+
      |  x_1 ... x_b   |                        |  rows, feature by feature |
      |  a matrix, or  |                        |  norms, k(s, s)           |
      |  its non-zeros |                        |  order: oldest -> newest  |
      +-------+--------+                        +------------+--------------+
              |                                              |
              +----------------------+-----------------------+
                                     |  one matrix product, or one step
                                     v  per non-zero; then exp, power, ...
                            +------------------+     for row i = 1 .. b:
                            | K   b x slots    |
                            | kernel values    |-----> margin = factor * <K[i], coef>
                            |                  |       the label is seen
                            +--------+---------+       rule: update?  -- no --> next row
                                     ^                   | yes
              x_i is now             |                   v
              in slot s:             |              add, shrink, remove, shift
              K[j, s] = k(x_i, x_j) -+              (coefficients, tail, norm)
              for j > i

Almost all time is spent on the kernel values of the block. They can be computed by several threads
(`workers`). A row that becomes a support is compared with the later rows of its block only. A block is as
long as the cache allows. A single round (`play`) has no block. If a rule exchanges supports between rounds
(`exchange`), the block ends.

How rows are stored
-------------------
A slab stores its rows feature by feature. So a block of dense rows is compared with it by one matrix product,
a sparse row by one step per non-zero over contiguous numbers, and a row of two or three features in
registers. Which of these is used is decided for each block by its number of zeros (`rows`), whether it came
as an array or as a sparse matrix. If rows are sparse and have very many features, slabs store only their
non-zeros, and each non-zero of a support is multiplied by those of the block with the same feature. This is
decided once, by the first batch (`budgetron._base.kernel_classifier`).

Modules
-------
=================  =========================================================================================
`kernel`           a kernel and its parameters; `kernel_values` has its loops
`rows`             a block of rows to learn or predict
`supports`         the slab: slots, rows, ages; it uses no labels. `comparison` compares it with a block
`rule`             the hypothesis over the slots and how it changes; an algorithm is a subclass (see
                   `budgetron.kernelized`). It uses neither features nor the type of the rows
`projection`       projection onto the span of the supports, for the Projectron
`gaussian`         a Gaussian over functions, for second-order rules; `gaussian_round` reads and changes it
`losses`           which rows second-order rules learn, and with which steps
`basis_change`     the change of coordinates where supports are removed from a span
`thinning`         the projection of a sum of kernel functions onto the span of a few
`panels`           triangular matrices that grow, for these three
`rounds`           the learner: joins kernel, slab and rule
`blocks`           the rounds of a batch; `one_round` single rounds; `prediction` predictions
`group`            several learners over the same rows, which share kernel values
`linear`           linear learners: one weight per feature, no slab. `covariance` is that of AROW
`combination`      one prediction from several experts, among them `linear_experts`; `portfolio_round` plays
                   single rounds of all of them
`fleet_states`     the states of many learners: `kernel_fleet`, `linear_fleet`, and `pooled_fleet` with a
                   limit of memory
`block_layout`     how the supports of a key of a fleet are packed; `block_store` the memory that they are in
`key_index`        the keys of fleets; `pcg` their random numbers, `removal` the formulas of removals
`history`          the average, or all, of the past hypotheses
`workers`          threads; `pages` large arrays; `calibration`, `scaling`, `dual` loops for other packages
`simd.c`           loops that the compiler turns into vector instructions, in several versions; the best
                   version for the processor is chosen when the library is loaded
=================  =========================================================================================

Numbers
-------
Rows, kernel values and norms have the precision of the rows. Coefficients and all sums over them are float64.
All state is in NumPy arrays. They are allocated when the model starts; those of learners without a budget
grow by half. So `nbytes` is the sum of their sizes, and models can be pickled. Large arrays have memory pages
of their own (`pages`). The interpreter lock is released while a batch is learned. It is taken back to grow a
slab, and to call a kernel that is a Python function.
"""
