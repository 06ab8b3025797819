"""One module under two names: older names of what is given stay importable, and share its modules."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Mapping, Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType


class Alias(Loader):
    """Gives a module under a second name."""

    def __init__(self, name: str) -> None:
        self.name = name

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        self.module = importlib.import_module(self.name)
        self.spec = self.module.__spec__
        return self.module

    def exec_module(self, module: ModuleType) -> None:
        module.__spec__ = self.spec


class _Older(MetaPathFinder):
    def __init__(self, package: str, home: str, names: Mapping[str, str] | None) -> None:
        self.package, self.home, self.names = f"{package}.", f"{home}.", names

    def find_spec(self, name: str, path: Sequence[str] | None, target: ModuleType | None = None) -> ModuleSpec | None:
        own = name.removeprefix(self.package)
        if not name.startswith(self.package) or (self.names is not None and own not in self.names):
            return None
        return ModuleSpec(name, Alias(self.home + (self.names or {}).get(own, own)))


def share(package: str, home: str, names: Mapping[str, str] | None = None) -> None:
    """Make `package.x` the module `home.x` from now on, whatever files the package has; with `names`, the older name ->
    today's, these modules alone."""
    sys.meta_path.insert(0, _Older(package, home, names))


def keep_older_names() -> None:
    """Let files that were handed out with an older name of a module of `core` load."""
    names = {"clip": "asymmetric_clip", "parts": "validate", "rows": "chunking"}
    share("ppo_by_hand.core", "ppo_by_hand.core", names)
