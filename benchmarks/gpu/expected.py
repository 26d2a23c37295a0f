"""What other cards should take: reckoned from what was measured on one of them, not measured."""

from __future__ import annotations

from typing import NamedTuple


class Card(NamedTuple):
    """What the data sheet of a card says.

    Attributes
    ----------
    name : str
        Its name.
    memory_gb : int
        Its memory.
    read_gbs : float
        Bandwidth of its memory, GB/s.
    float32_tflops, float64_tflops : float
        Operations a second, without tensor cores.
    """

    name: str
    memory_gb: int
    read_gbs: float
    float32_tflops: float
    float64_tflops: float


CARDS = (
    Card("H200", 141, 4800, 67, 34),
    Card("H100", 80, 3350, 67, 34),
    Card("A100", 80, 2039, 19.5, 9.7),
    Card("RTX 4090", 24, 1008, 82.6, 1.29),
    Card("L40S", 48, 864, 91.6, 1.43),
    Card("RTX 3060", 12, 360, 12.7, 0.199),
    Card("T4", 16, 320, 8.1, 0.253),
    Card("L4", 24, 300, 30.3, 0.473),
)


def card_of(name: str) -> Card | None:
    """Return the card that a device of this name is, if it is known.

    Examples
    --------
    >>> card_of("NVIDIA H200").memory_gb
    141
    >>> card_of("NVIDIA L40") is None
    True
    """
    words = f" {name} ".replace("-", " ")
    return next((card for card in CARDS if f" {card.name} " in words), None)


def expected_ms(card: Card, measured: Card, rest: float, exact: float) -> float:
    """Return milliseconds on a card of what was measured on another one.

    Parameters
    ----------
    card, measured : Card
        The two.
    rest : float
        Milliseconds that grow as what the card is slower at: reading memory or float32.
    exact : float
        Milliseconds that grow as float64: the H-step and covariances.
    """
    reading = measured.read_gbs / card.read_gbs
    computing = measured.float32_tflops / card.float32_tflops
    return rest * max(reading, computing) + exact * measured.float64_tflops / card.float64_tflops


def samples_that_fit(card: Card, m: int) -> int:
    """Return how many samples of m features in float32 fit in six tenths of a card's memory, in millions."""
    return round(0.6 * card.memory_gb * 1e9 / (4 * m) / 1e6)
