"""One stand of trees."""
from dataclasses import dataclass, field


@dataclass
class Stand:
    """Trees by kind."""

    trees: dict[str, int] = field(default_factory=dict)

    def grow(self, years: int) -> "Stand":
        return Stand({kind: count * 2**years for kind, count in self.trees.items()})
