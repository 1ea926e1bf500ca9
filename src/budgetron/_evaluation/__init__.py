"""Progressive evaluation: predict each row, then learn it, and record the results.

`runs` runs learners over a stream, `comparison` holds the learners and their results, `players` plays the
rounds of a block, `cohort` lets learners share kernel values. Internal; the public module is
`budgetron.evaluate`.
"""
