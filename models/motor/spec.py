"""What serving a MOTOR artifact needs to know beside its graph: `settings` of the manifest."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from models.motor.config import LONGEST, Layout, MotorConfig

DAY = 86400.0


@dataclass(frozen=True, kw_only=True)
class EhrSpec:
    """One pressed network.

    backbone      digest of network, dictionary and ontology: adapters attach to it
    dictionary    digest of the dictionary's file
    aged          whether the network reads the standardised age
    time_bins     starts of the bins in units of `unit_seconds`, the first 0; the last bin is unbounded
    rank          binned features; a task is one vector over them, and a bias
    reach, limit  positions that can influence an answer (0: all), and positions the network takes
    birth_codes   codes that say when the patient was born; the first stands for a bare date of birth
    death_codes   codes after which nothing is predicted
    """

    backbone: str
    dictionary: str
    layout: Layout
    hierarchical: bool
    aged: bool
    time_bins: tuple[float, ...]
    unit_seconds: float
    rank: int
    hidden: int
    pretraining_tasks: int
    reach: int
    limit: int
    birth_codes: tuple[str, ...]
    death_codes: tuple[str, ...]

    @property
    def edges_days(self) -> list[float | None]:
        """Edges of the bins in days; the last is None: unbounded."""
        return [*(start * self.unit_seconds / DAY for start in self.time_bins), None]

    def settings(self) -> dict[str, Any]:
        """As the manifest holds it."""
        return {name: list(v) if isinstance(v, tuple) else v for name, v in asdict(self).items()}

    @classmethod
    def from_settings(cls, settings: Mapping[str, Any]) -> EhrSpec:
        """Raises KeyError, ValueError or TypeError if the settings are not a record model's."""
        found = {name: settings[name] for name in cls.__dataclass_fields__}
        for name in ("time_bins", "birth_codes", "death_codes"):
            found[name] = tuple(found[name])
        if not found["birth_codes"] or found["limit"] < 1:
            raise ValueError("birth_codes and limit must say something")
        return cls(**found)


def make_spec(
    config: MotorConfig,
    *,
    backbone: str,
    dictionary: str,
    hierarchical: bool,
    birth_codes: tuple[str, ...],
    death_codes: tuple[str, ...],
) -> EhrSpec:
    """The settings of a network."""
    return EhrSpec(
        backbone=backbone,
        dictionary=dictionary,
        layout=config.layout,
        hierarchical=hierarchical,
        aged=config.time_channels > 0,
        time_bins=config.time_bins,
        unit_seconds=config.unit,
        rank=config.rank,
        hidden=config.hidden,
        pretraining_tasks=len(config.tasks),
        reach=config.reach,
        limit=config.reach or LONGEST,
        birth_codes=birth_codes,
        death_codes=death_codes,
    )
