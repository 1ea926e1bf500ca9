# The damage that removing a support does, and how far a hypothesis must be shrunk before (Forgetron paper, section 6).

from libc.math cimport sqrt
from libc.stdint cimport int64_t


cdef inline double damage(double lam, double mu) noexcept nogil:
    """Return Psi(lambda, mu), the damage of a removal, (15)."""
    return lam * lam + 2.0 * lam - 2.0 * lam * mu


cdef inline double allowed_damage(int64_t mistakes) noexcept nogil:
    """Return the damage that is allowed after this many mistakes, (42)."""
    return 15.0 / 32.0 * mistakes


cdef inline double largest_phi(double sigma, double mu, double c) noexcept nogil:
    """Return the largest phi in (0, 1] with Psi(sigma phi, mu phi) + c <= 0, (43)."""
    cdef double a = sigma * sigma - 2.0 * sigma * mu  # (44)
    cdef double b = 2.0 * sigma
    cdef double d = b * b - 4.0 * a * c
    cdef double phi = 1.0
    if a > 0.0 or (a < 0.0 and d > 0.0 and (-b - sqrt(d)) / (2.0 * a) > 1.0):
        phi = -2.0 * c / (b + sqrt(d))  # = (-b + sqrt d) / 2a, without cancellation near a = 0
    elif a == 0.0 and b > 0.0:
        phi = -c / b
    return phi if phi < 1.0 else 1.0
