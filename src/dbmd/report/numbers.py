"""Numbers as people write them."""

from __future__ import annotations


def amount(value: float | None, digits: int = 3) -> str:
    """Return a number with some significant digits, and thousands set apart.

    Examples
    --------
    >>> from dbmd.report.numbers import amount
    >>> [amount(v) for v in (1797, 12.3456, 0.000012345, 2.0, None)]
    ['1,797', '12.3', '1.23e-05', '2', 'unknown']
    """
    if value is None:
        return "unknown"
    if value == 0:
        return "0"
    if abs(value) >= 10 ** (digits - 1) and abs(value) < 1e9:
        return f"{value:,.0f}"
    return f"{value:.{digits}g}"


def percent(fraction: float | None) -> str:
    """Return a fraction in per cent, without meaningless digits.

    Examples
    --------
    >>> from dbmd.report.numbers import percent
    >>> [percent(s) for s in (0.414, 0.041, 0.0002, 0.0, 0.9996, 1.0, -0.0002)]
    ['41%', '4.1%', '< 0.1%', '0%', '> 99.9%', '100%', '0%']
    """
    if fraction is None:
        return "unknown"
    if -0.0005 < fraction <= 0:
        return "0%"  # not -0.0%: the explained part of a variance may be a little below zero
    if 0 < fraction < 0.001:
        return "< 0.1%"
    if 0.999 < fraction < 1:
        return "> 99.9%"
    digits = 1 if 0 < abs(fraction) < 0.1 or 0.99 <= fraction < 1 else 0
    return f"{100 * fraction:.{digits}f}%"


def part(fraction: float) -> str:
    """Return a fraction as a part of a sentence.

    Examples
    --------
    >>> from dbmd.report.numbers import part
    >>> [part(s) for s in (0.0, 0.0002, 0.41, 1.0)]
    ['none', 'less than 0.1%', '41%', 'all']
    """
    if fraction in (0, 1):
        return "all" if fraction else "none"
    return percent(fraction).replace("<", "less than").replace(">", "over")


def duration(seconds: float | None) -> str:
    """Return a time in a unit that suits it.

    Examples
    --------
    >>> from dbmd.report.numbers import duration
    >>> [duration(s) for s in (0.0213, 2.31, 95, 7330)]
    ['21 ms', '2.3 s', '1 min 35 s', '2 h 2 min']
    """
    if seconds is None:
        return "unknown"
    if seconds < 1:
        return f"{1000 * seconds:.0f} ms"
    if seconds < 59.95:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if hours else f"{minutes} min {rest} s"


def plural(n: int, noun: str) -> str:
    """Return a number and its noun.

    Examples
    --------
    >>> from dbmd.report.numbers import plural
    >>> plural(1, "source"), plural(1797, "sample")
    ('1 source', '1,797 samples')
    """
    return f"{n:,} {noun}" + ("" if n == 1 else "s")
