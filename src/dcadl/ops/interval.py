"""How far an accuracy that was seen on some samples may lie from the true one."""

CONFIDENCE = 0.95


def interval(accuracy: float, n: int) -> tuple[float, float]:
    """Wilson's interval of an accuracy seen on n samples."""
    from scipy.stats import binomtest

    found = binomtest(round(accuracy * n), n).proportion_ci(CONFIDENCE, method="wilson")
    return float(found.low), float(found.high)
