from budgetron._core.span import SpanRule

class MergingRule(SpanRule):
    merges: bool
