"""Where verifiers come from: the shipped ones, plugins of other distributions, extra modules."""

from __future__ import annotations

import platform
import re
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from importlib import import_module
from importlib.metadata import PackageNotFoundError, entry_points, requires, version
from types import MappingProxyType

from verifier_service.domain.verifiers import Verifier

ENTRY_POINT_GROUP = "verifier_service.verifiers"
INTERPRETER = "python"
DISTRIBUTION = "verifier-service"
MISSING = "missing"

SHIPPED: Mapping[str, str] = MappingProxyType(
    {
        "molecule.validity": "tiers.fast.molecule_validity:MoleculeValidity",
        "molecule.identify": "tiers.fast.molecule_identify:MoleculeIdentify",
        "molecule.plausibility": "tiers.fast.molecule_plausibility:MoleculePlausibility",
        "molecule.descriptors": "tiers.fast.molecule_descriptors:MoleculeDescriptors",
        "molecule.identity": "tiers.fast.molecule_identity:MoleculeIdentity",
        "code.tests": "tiers.fast.code_tests:CodeTests",
        "schema.answer": "tiers.fast.schema_answer:SchemaAnswer",
        "math.answer": "tiers.fast.math_answer:MathAnswer",
        "forecast.validity": "tiers.fast.forecast_validity:ForecastValidity",
        "turns.tool_calls": "tiers.fast.turns_tool_calls:TurnsToolCalls",
        "turns.errors": "tiers.fast.turns_errors:TurnsErrors",
        "xtb.gap": "tiers.simulation.xtb_gap:XtbGap",
        "pyscf.gap": "tiers.high_fidelity.pyscf_gap:PyscfGap",
        "quantum.energy": "tiers.high_fidelity.quantum_energy:QuantumEnergy",
        "review": "tiers.lab.review:Review",
        "market.settlement": "tiers.lab.market_settlement:MarketSettlement",
    }
)


class BrokenPlugin(RuntimeError):
    """A declared verifier, map or ladder cannot be loaded; the message names it."""


class Sources:
    """Names and import paths (``module:Class``) of every declared verifier.

    Nothing shipped is imported before ``load``, so that a child imports only what it runs. ``plugins``
    are modules with a tuple ``VERIFIERS`` of classes, or paths of single classes. Raises
    ``BrokenPlugin`` for a plugin that cannot be imported and for a name declared twice; a single class
    may be one that is declared anyway.
    """

    def __init__(
        self,
        plugins: Sequence[str] = (),
        *,
        shipped: Mapping[str, str] = SHIPPED,
        installed: bool = True,
    ) -> None:
        self._paths: dict[str, str] = dict(shipped)
        for name, path in _installed() if installed else ():
            self._declare(name, path)
        for module in plugins:
            for name, path in _module_verifiers(module):
                if path != module or self._paths.get(name) != path:
                    self._declare(name, path)

    def names(self) -> tuple[str, ...]:
        """Every declared name, shipped ones first."""
        return tuple(self._paths)

    def load(self, name: str) -> Verifier:
        """Import and instantiate one verifier.

        Raises ``KeyError`` for an undeclared name and ``BrokenPlugin`` when it cannot be imported, is
        not a verifier, or declares another name than the one it is listed under.
        """
        path = self._paths[name]
        try:
            verifier = load_path(path)
        except BrokenPlugin as error:
            raise BrokenPlugin(f"verifier {name} ({path}) {error}") from error
        if verifier.info.name != name:
            raise BrokenPlugin(f"verifier {name} ({path}) calls itself {verifier.info.name}")
        return verifier

    def _declare(self, name: str, path: str) -> None:
        if name in self._paths:
            raise BrokenPlugin(f"verifier {name} is declared by {self._paths[name]} and by {path}")
        self._paths[name] = path


def load_path(path: str) -> Verifier:
    """Import and instantiate the class at ``module:Class``. Raises ``BrokenPlugin`` without naming it."""
    module, _, attribute = path.partition(":")
    try:
        verifier = getattr(import_module(module), attribute)()
    except Exception as error:
        raise BrokenPlugin(f"cannot be loaded: {type(error).__name__}: {error}") from error
    if not isinstance(verifier, Verifier):
        raise BrokenPlugin("is not a subclass of Verifier")
    return verifier


def installed_version(library: str) -> str:
    """The version of a distribution, or of ``python`` itself; ``missing`` where there is none."""
    if library == INTERPRETER:
        return platform.python_version()
    try:
        return version(library)
    except PackageNotFoundError:
        return MISSING


def keyed_version(library: str) -> str:
    """The version that keys checks: the installed one, else the one that this release pins.

    A server that leaves a verifier to its workers then asks for checks under the key by which they know
    them. ``missing`` where the library is neither installed nor pinned.
    """
    found = installed_version(library)
    return found if found != MISSING else _pinned().get(library, MISSING)


@lru_cache(maxsize=1)
def _pinned() -> Mapping[str, str]:
    """Libraries that this distribution requires in exactly one version (PEP 508, ``name==version``)."""
    try:
        needed = requires(DISTRIBUTION) or []
    except PackageNotFoundError:
        return {}
    exact = (re.match(r"([\w.-]+)==([\w.+!-]+)\s*(?:;|$)", line) for line in needed)
    return {match[1]: match[2] for match in exact if match is not None}


def _installed() -> Iterator[tuple[str, str]]:
    for point in sorted(entry_points(group=ENTRY_POINT_GROUP), key=lambda point: point.name):
        yield point.name, point.value


def _module_verifiers(module: str) -> Iterator[tuple[str, str]]:
    if ":" in module:
        try:
            yield load_path(module).info.name, module
        except BrokenPlugin as error:
            raise BrokenPlugin(f"plugin {module} {error}") from error
        return
    try:
        classes = tuple(import_module(module).VERIFIERS)
    except Exception as error:
        raise BrokenPlugin(
            f"plugin module {module} cannot be loaded: {type(error).__name__}: {error}"
        ) from error
    for cls in classes:
        yield cls.info.name, f"{module}:{cls.__name__}"
