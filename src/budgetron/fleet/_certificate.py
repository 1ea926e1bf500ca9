"""The guarantee of one key of a fleet."""

from __future__ import annotations

from dataclasses import dataclass

from budgetron import bounds

__all__ = ["KeyCertificate"]


@dataclass(frozen=True)
class KeyCertificate:
    """What bounds the mistakes of a key, although its supports were removed at times that it did not choose.

    Attributes
    ----------
    key : int or str
    rows, mistakes : int
        Rows that the key has learned, and its mistakes M.
    damage : float
        Q, the sum of the damage of all removals. A Forgetron shrinks its hypothesis so that it is at most
        15/32 M; only a key that loses several supports without a mistake in between exceeds this by a very
        small number.
    shrinking : float
        B, the sum of (1 - phi) / (1 + phi) over all factors phi by which the hypothesis was shrunk.
    """

    key: int | str
    rows: int
    mistakes: int
    damage: float
    shrinking: float

    def bound(self, norm: float, losses: float, radius: float = 1.0) -> float:
        """Return ||g||^2 (1 + B) + 2 (sum of hinge losses of g) + Q, which the mistakes never exceed.

        Parameters
        ----------
        norm : float
            The norm of any function g in the space of the kernel.
        losses : float
            The sum of its hinge losses max(0, 1 - y g(x)) on the rows of this key.
        radius : float, default=1.0
            The largest sqrt(k(x, x)) of these rows; the theorem needs it to be at most 1. With the kernels
            "rbf" and "laplacian" it is 1.

        Returns
        -------
        float
        """
        return bounds.removals_at_any_time(norm, losses, self.damage, self.shrinking, radius)
