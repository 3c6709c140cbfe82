"""The exact scale of each atom, a block of the descent.

ω_i and its codes U_i by c > 0, its columns W_i of the classifier by 1/c: WŨ, and so the label term, does not
change. What else F has of atom i is

φ_i(c) = ½a_i c² + b_i c + ½w_i/c²,   a = ‖ω_iX̄ − U_i‖² + λ4‖ω_i‖²,  b = λ1‖U_i‖₁,  w = λ3‖W_i‖²

which is convex, with its minimum at the root of ac⁴ + bc³ = w, or at 1/‖ω_i‖ where ω_i would leave the ball.
"""

from __future__ import annotations

from dcadl.arrays import Array, array_namespace, tiny

LEAST = 1e-3  # an atom on its way to zero goes there by several passes, none of which overflows
NEWTON_STEPS = 5  # from at most 26 % below the root: 1e-2, 1e-4, 1e-8, all digits, and one more


def best_scales(a: Array, b: Array, w: Array, lengths: Array) -> Array:
    """argmin φ_i(c) over 0 < c ≤ 1/‖ω_i‖ for each atom; 1 where nothing holds it from zero (w = 0)."""
    xp, least = array_namespace(a), tiny(a) ** 0.5
    a, b = xp.clip(a, min=least), xp.clip(b, min=least)
    held = w > least
    w = xp.where(held, w, a + b)
    # At the root ac⁴ and bc³ are at most w, and one of them at least w/2: it lies close above the start, and
    # Newton's iteration on the concave a·c + b − w/c³ climbs to it.
    c = xp.minimum((0.5 * w / a) ** 0.25, (0.5 * w / b) ** (1 / 3))
    for _ in range(NEWTON_STEPS):
        c = c - (a * c + b - w / c**3) / (a + 3 * w / c**4)
    c = xp.minimum(xp.clip(c, min=LEAST), 1 / xp.clip(lengths, min=least))
    return xp.where(held, c, xp.ones_like(c))


def scaled_terms(a: Array, b: Array, w: Array, c: Array) -> Array:
    """Σ_i φ_i(c_i)."""
    xp = array_namespace(a)
    return xp.sum(0.5 * a * c**2 + b * c + 0.5 * w / c**2)
