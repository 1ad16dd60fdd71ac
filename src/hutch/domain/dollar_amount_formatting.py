"""Amounts of money as text."""

import math


def dollars(amount: float) -> str:
    """An amount with cents; a smaller one with two significant digits, so that it never looks like zero."""
    if amount <= 0 or amount >= 0.1 or round(amount, 2) == amount:
        return f"${amount:.2f}"
    return f"${amount:.{max(4, 1 - math.floor(math.log10(amount)))}f}"
