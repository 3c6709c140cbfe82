"""Small numbers that keep divisions, factorisations and comparisons sound: one policy, in one place.

Each is a share of the quantity it guards, so that a result does not depend on the scale of the data. Where
the quantity itself may be zero, the smallest normal number of the dtype is added (`arrays.tiny`).
"""

from __future__ import annotations

# A flat patch is noise once its mean is gone: below this share of its own length it is not blown up.
CONTRAST_FLOOR = 1e-2
# The same after whitening, as a share of the usual length: rounding must not become a pattern.
WHITENED_FLOOR = 1e-2

# Share of the mean eigenvalue added to each one before whitening, and of the mean deviation of like features
# added to each one before dividing by it: directions and features that hardly vary are mostly noise.
WHITENING_FLOOR = 0.1
DEVIATION_FLOOR = 0.1

# The deviation of a feature, an average of responses to windows of about unit length, up to which it is
# rounding: of blank images nothing else is left, and brought to comparable size it would look like something.
FEATURE_FLOOR = 1e-7

# Share of its largest diagonal entry added to a Gram matrix in float64 where the user's ridge is smaller, 0
# for example: directions below it are rounding. Keeps the matrix positive definite.
RIDGE_DAMPING = 1e-12

# Share of the trace added to the small matrices of a block conjugate-gradient step. Directions that nearly
# depend on each other carry rounding: with 1e-6 float32 and float64 differ by 2 % in W after 23 passes on
# faces, with 1e-2 by 4e-6; the objective ends 0.2 % higher. Many steps in a row settle by themselves.
STEP_DAMPING = 1e-2
START_DAMPING = 1e-3

# Share of tr S that is ridge in the classifier's preconditioner: λ3 may be 0.
PRECONDITIONER_DAMPING = 1e-6

# The bound on ‖W‖² carries rounding; a step longer than one over the true bound may climb.
SMOOTHNESS_SLACK = 1e-6

# Rounding of a sum of an image's terms, in units of the dtype's epsilon: values equal but for that are no
# reason to reject codes.
ROUNDING_SLACK = 4

# Rounding of a sum over many patches, in the same units: less than that of what it was before is nothing.
SUM_SLACK = 64

# Squares of values near the ends of a dtype's range overflow or vanish: lengths would be infinite or zero,
# and a model no better than chance. So the largest value of the data keeps this factor away from both ends.
RANGE_MARGIN = 1e4

# Squared distances of unit rows to the span of those before them, in units of n times the dtype's epsilon:
# below it they are rounding, and the row depends on the others.
RANK_ROUNDING = 100

# A residual, or a pivot, of matching pursuit below so many of the dtype's epsilon is nothing.
PURSUIT_ROUNDING = 16

# Length of an atom fitted to codes, and size of a code, below which they stand for nothing: the atom answers
# to no sample, the sample does not use the atom. Samples are of length one.
DEAD_ATOM = 1e-8
USED_CODE = 1e-7

# Variances below this share of the largest are rounding of float32: no direction is taken from them.
VARIANCE_FLOOR = 1e-6

# Singular values below this share of the largest belong to what a whitener takes out, the mean.
WHITENER_RANK = 1e-4

# Where conjugate gradients for the last classifier end: length of the residual as a share of the right side.
RESIDUAL = 1e-6

# Share of the largest eigenvalue below which a direction of a few long patches is rounding, and left out.
SPAN_FLOOR = 1e-10

# Deviation of left-out scores below which they do not tell classes apart, in units of 1/n: to leave one of n
# images out moves its scores by about one unit, away from its own class. With 0, of a hundred pictures of
# noise of ten classes 15 % seem to be named rightly, with 3 and more 13 % (twelve draws).
LEFT_OUT_FLOOR = 10

# What the score of an image's own class rises by, at least, as a share of what its label does: by scores
# that say nothing, or the opposite, all images would be of one class; the largest score is a better guess.
LEAST_RISE = 1e-3
