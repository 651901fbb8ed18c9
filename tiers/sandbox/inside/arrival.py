"""The first code that is sent into a sandbox: it makes the modules of this package there, and starts."""

from __future__ import annotations

import marshal
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from types import CodeType, ModuleType

    Job = Callable[[], None]

_PACKAGE = "tiers.sandbox.inside"


def arrive(sent: Sequence[tuple[str, CodeType]], later: dict[str, bytes]) -> Job | None:
    """Run the modules ``sent``, in order, keep those for ``later`` until they are imported, serve orders.

    Returns what a forked process has to run.
    """
    for name in ("tiers", "tiers.sandbox", _PACKAGE):
        package = sys.modules[name] = type(sys)(name)
        package.__path__ = []

    def made(name: str, code: CodeType) -> ModuleType:
        full = f"{_PACKAGE}.{name}"
        module = sys.modules[full] = type(sys)(full)
        setattr(package, name, module)
        exec(code, module.__dict__)
        return module

    def missing(name: str) -> ModuleType:
        if name not in later:
            raise AttributeError(name)
        return made(name, marshal.loads(later.pop(name)))  # noqa: S302 - the judge's own words

    package.__getattr__ = missing  # type: ignore[method-assign]
    for name, code in sent:
        made(name, code)
    return sys.modules[f"{_PACKAGE}.zygote"].main()  # type: ignore[no-any-return]
