"""Specifications of networks: `kind: pdno` and constructor options.

A specification has the options of the network's constructor, with their defaults and limits. A
file names a kind of network, never code to import; `pdno.register` adds those of other packages.
"""

import inspect
from collections.abc import Callable
from functools import cache
from typing import Annotated, Any, Literal

import torch
from pydantic import BeforeValidator, ConfigDict, Field, SerializeAsAny, create_model
from torch import nn

from pdno.interface.errors import unknown_name
from pdno.interface.records import Record
from pdno.networks.mwt import MWT
from pdno.networks.pdno import FNO, PDIO, PDNO, SemigroupStep

NETWORKS: dict[str, Callable[..., nn.Module]] = {"pdno": PDNO, "fno": FNO, "mwt": MWT}
NETWORKS |= {"pdio": PDIO, "semigroup": SemigroupStep}
SIZES = ("dim", "in_channels", "out_channels")  # which follow from the data


class NetworkSpecification(Record):
    """A kind of network and the options of its constructor; `specify` makes one."""

    model_config = ConfigDict(arbitrary_types_allowed=True)
    kind: str

    def build(self, dim: int, in_channels: int, out_channels: int, seed: int = 0) -> nn.Module:
        """The network with the initial weights of a seed; the global generator is left alone."""
        options = {name: getattr(self, name) for name in type(self).model_fields if name != "kind"}
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            return NETWORKS[self.kind](dim, in_channels, out_channels, **options)

    def __reduce__(self) -> tuple[object, ...]:
        return _read, (dict(self),)  # its class is made when it is needed

    def option(self, name: str) -> Any:
        """An option by name; None where this kind of network does not have it."""
        return getattr(self, name, None)

    @property
    def family(self) -> tuple[str, str]:
        """The family of the paper's tables, and the variant; empty where there is only one."""
        if self.kind == "fno":
            return ("FNO-3D" if self.option("space_time") else "FNO"), ""
        if self.kind == "mwt":
            return "MWT", {"legendre": "Leg", "chebyshev": "Chb"}[self.option("base")]
        if self.kind == "semigroup":
            return "PDNO", "semigroup"
        if self.kind not in ("pdno", "pdio"):
            return type(self).__name__.removesuffix("Specification"), ""
        if self.option("symbol") != "network":
            return "PDNO", str(self.option("symbol"))
        x = "x," if self.option("depends_on_x") else ""
        t = ",t" if self.option("takes_time") else ""
        parameters = ",μ" if self.option("pde_parameters") else ""
        relu = " relu" if self.option("activation") == "relu" else ""
        return "PDNO", f"a({x}ξ{t}{parameters}){relu}"


def specify(kind: str, **options: object) -> NetworkSpecification:
    """The specification of a network.

    Example:
        >>> specify("pdno", width=8, modes=4).build(1, 1, 1).width
        8
    """
    if kind not in NETWORKS:
        raise ValueError(unknown_name("network kind", kind, NETWORKS))
    return record_class(kind, NETWORKS[kind]).model_validate({"kind": kind, **options})


@cache
def record_class(kind: str, network: Callable[..., nn.Module]) -> type[NetworkSpecification]:
    """The class of the specifications of a network, by the signature of its constructor."""
    class_name = getattr(network, "__name__", kind)
    fields: dict[str, Any] = {"kind": (Literal[kind], kind)}
    for name, parameter in inspect.signature(network).parameters.items():
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            wrong = f"{class_name} takes options without names (*{name})"
            raise ValueError(f"{wrong}, which no file can list: name them in its constructor")
        if name not in SIZES:
            required, hint = parameter.default is parameter.empty, parameter.annotation
            default = Field() if required else parameter.default
            fields[name] = (Any if hint is parameter.empty else hint, default)
    return create_model(f"{class_name}Specification", __base__=NetworkSpecification, **fields)


def _read(value: object) -> object:
    """A record {"kind": ..., ...}, or the name of a kind alone, as a specification."""
    values = {"kind": value} if isinstance(value, str) else value
    if not isinstance(values, dict):
        return values
    return specify(**{**values, "kind": str(values.get("kind"))})


AnyNetwork = Annotated[SerializeAsAny[NetworkSpecification], BeforeValidator(_read)]
