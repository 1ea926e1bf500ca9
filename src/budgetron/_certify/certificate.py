"""The certificate: a bound evaluated on a run and a competitor."""

from __future__ import annotations

from dataclasses import dataclass, field
from math import inf, isnan

from budgetron import bounds
from budgetron._util.html import html_table
from budgetron._util.types import Floats
from budgetron.bounds import Assumption, AssumptionError

__all__ = ["Certificate", "refuse_failed"]


@dataclass(frozen=True)
class Certificate:
    """A bound evaluated on a run and a competitor.

    Attributes
    ----------
    learner : str
        The model.
    theorem : str
        Where the bound is stated.
    quantity : str
        The quantity that is bounded: mistakes, updates, expected mistakes, or the loss of a vote.
    count : int or float
        Its value in the run.
    bound : float
        Its largest possible value by the theorem.
    competitor : str
        What the run is compared with.
    norm : float
        Norm of the competitor: the largest, if it drifts; NaN for an expert.
    losses : float
        Sum of the competitor's losses on the stream; for an expert, its mistakes.
    shift : float
        Distance that the competitor drifts in all.
    rounds : int
        Rounds of the run.
    most : int or None
        What the count cannot exceed by what else is known about the run; None if this is the number of
        rounds. For second-order learners: the rounds without those that were learned although the prediction
        was right.
    assumptions : list of Assumption
        The assumptions of the theorem, and whether they hold.
    expansion : (rows, coefficients), or None
        The competitor itself, if it does not drift. If the learner is linear and has an intercept, the first
        column of the rows belongs to the intercept.
    loss : str
        The loss of the competitor, "hinge", "logistic" or "squared".
    """

    learner: str
    theorem: str
    quantity: str
    count: float
    bound: float
    competitor: str
    norm: float
    losses: float
    shift: float
    rounds: int
    most: int | None = None
    assumptions: list[Assumption] = field(default_factory=list)
    expansion: tuple[Floats, Floats] | None = field(default=None, repr=False)
    loss: str = "hinge"

    @property
    def ratio(self) -> float:
        """The count as a share of the bound."""
        return self.count / self.bound if self.bound > 0 else (0.0 if self.count == 0 else inf)

    @property
    def applies(self) -> bool:
        """Whether all assumptions of the theorem hold."""
        return all(assumption.holds for assumption in self.assumptions)

    @property
    def vacuous(self) -> bool:
        """Whether the bound is at least the number of rounds, or `most`, and so is no restriction."""
        return self.bound >= (self.rounds if self.most is None else self.most) * (1 - bounds.ROUNDING)

    @property
    def known(self) -> str:
        """What the count cannot exceed anyway, in words."""
        return "the number of rounds" if self.most is None else f"{self.most:,}, which is known anyway"

    @property
    def size(self) -> str:
        """The norm of the competitor, and what `losses` are, in words."""
        return f"norm {self.norm:.4g}, {self.loss} losses" if not isnan(self.norm) else "mistakes"

    @property
    def holds(self) -> bool:
        """Whether the theorem applies and the count is at most the bound (one run may exceed a mean)."""
        return self.applies and self.count <= self.bound * (1 + bounds.ROUNDING)

    def to_dict(self) -> dict[str, object]:
        """Return all fields and properties, as numbers and text."""
        values: dict[str, object] = {
            name: getattr(self, name)
            for name in self.__dataclass_fields__
            if name not in ("assumptions", "expansion")
        }
        values |= {name: getattr(self, name) for name in ("ratio", "applies", "vacuous", "holds")}
        return values | {"assumptions": [vars(assumption) for assumption in self.assumptions]}

    @property
    def verdict(self) -> str:
        """Whether the bound holds, in words."""
        exceeded = (
            "was exceeded, which may happen in a single run"
            if self.quantity.startswith("expected")
            else "is VIOLATED"
        )
        verdict = "holds" if self.holds else (exceeded if self.applies else "does not apply")
        if self.holds and self.vacuous:
            verdict += f", but is vacuous: at least {self.known}"
        return f"the bound {verdict}"

    def _lines(self) -> list[tuple[str, str]]:
        """Return what is printed, as names and values."""
        drift = f", drifts by {self.shift:.4g}" if self.shift else ""
        return [
            ("theorem", self.theorem),
            ("competitor", f"{self.competitor}: {self.size} {self.losses:.6g}{drift}"),
            *(
                ("" if i else "assumes", f"{'yes' if a.holds else 'NO'}: {a.text}; it is {a.value:.4g}")
                for i, a in enumerate(self.assumptions)
            ),
            (self.quantity, f"{self.count:.10g}"),
            ("bound", f"{self.bound:.6g} (the count is {100 * self.ratio:.1f} % of it)"),
        ]

    def __str__(self) -> str:
        lines = [f"  {name:<12} {value}" for name, value in self._lines()]
        return "\n".join([f"{self.learner} after {self.rounds} rounds", *lines, f"  {self.verdict}"])

    def _repr_html_(self) -> str:
        return html_table(f"{self.learner} after {self.rounds:,} rounds", self._lines(), note=self.verdict)


def refuse_failed(assumptions: list[Assumption], source: str) -> None:
    """Raise `AssumptionError` if an assumption does not hold."""
    failed = [assumption for assumption in assumptions if not assumption.holds]
    if failed:
        raise AssumptionError(f"{source} does not apply: " + "; ".join(map(str, failed)))
