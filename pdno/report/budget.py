"""Budgets: what a training had, beside what the paper's had.

    smoke   a handful of samples: shows that everything runs, and nothing else
    small   fewer epochs or samples than the paper
    paper   as many epochs and samples as the paper, or more

A number without its budget says little, so tables, figures and verdicts carry it.
"""

__all__ = ["Budget", "Level", "count_of", "describe_budgets", "lowest_level"]

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

Level = Literal["smoke", "small", "paper"]
LEVELS: tuple[Level, ...] = ("smoke", "small", "paper")
HANDFUL = 10
"""Training samples below which nothing can be learned."""


@dataclass(frozen=True)
class Budget:
    """What the runs of one group had.

    Arguments:
        epochs: Passes over the training samples.
        samples: Training samples.
        seeds: Number of runs.
        seconds: Training time of one run, the mean over the seeds; None where not known.
        paper_epochs: Epochs of the paper; None for experiments that it does not have.
        paper_samples: Training samples of the paper.
    """

    epochs: int
    samples: int
    seeds: int
    seconds: float | None
    paper_epochs: int | None
    paper_samples: int | None

    @property
    def work(self) -> int:
        """Samples seen in training, with repetition."""
        return self.epochs * self.samples

    @property
    def level(self) -> Level:
        """How it stands to the paper's."""
        if self.samples < HANDFUL:
            return "smoke"
        enough = self.epochs >= (self.paper_epochs or 0) and self.samples >= (
            self.paper_samples or 0
        )
        return "paper" if enough else "small"

    def __str__(self) -> str:
        epochs = _beside(self.epochs, self.paper_epochs, "epoch")
        samples = _beside(self.samples, self.paper_samples, "training sample")
        return f"{self.level} budget: {epochs}, {samples}, {count_of(self.seeds, 'seed')}"


def count_of(count: int, word: str) -> str:
    """A number and its word, which has an s unless the number is 1."""
    return f"{count} {word}{'' if count == 1 else 's'}"


def _beside(count: int, paper: int | None, word: str) -> str:
    return f"{count} of {count_of(paper, word)}" if paper else count_of(count, word)


def lowest_level(budgets: Iterable[Budget]) -> Level | None:
    """The least of some levels; None for no budget at all."""
    found = {budget.level for budget in budgets}
    return next((level for level in LEVELS if level in found), None)


def describe_budgets(named: Iterable[tuple[str, Budget]]) -> str:
    """One sentence for some models; those with the same budget share it."""
    by_text: dict[str, list[str]] = {}
    for model, budget in named:
        models = by_text.setdefault(str(budget), [])
        if model not in models:
            models.append(model)
    if len(by_text) == 1:
        return next(iter(by_text))
    return "; ".join(f"{text} ({', '.join(models)})" for text, models in by_text.items())
