"""Finds the installed extensions by their entry points and manifests, without running their code."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from nacre.record import Record
from nacre.runtime.extensions.installed.manifest import (
    MANIFEST_FILE,
    Manifest,
    ManifestInvalid,
    parse_manifest,
)

if TYPE_CHECKING:
    from importlib.metadata import Distribution, EntryPoint

PACKAGE = "nacre"
GROUP = "nacre.extensions"
"""The entry-point group: `name = "package:object"` under `[project.entry-points."nacre.extensions"]`."""


class Installed(Record):
    """An installed extension. If it cannot be used, `problem` is a sentence and the manifest may be
    missing."""

    id: str
    package: str
    version: str
    entry_point: EntryPoint
    manifest: Manifest | None
    problem: str = ""

    @property
    def is_built_in(self) -> bool:
        return self.package == PACKAGE


def installed_extensions() -> tuple[Installed, ...]:
    """All extensions of this Python by id. No other package can take the id of a built-in extension."""
    from importlib.metadata import entry_points  # importing this takes longer than reading all manifests

    found = _installed(entry_points(group=GROUP))
    built_in = {item.id: item for item in found if item.is_built_in}
    counts = Counter(item.id for item in found)
    unique: dict[str, Installed] = {}
    for item in found:
        if counts[item.id] > 1:
            packages = " and ".join(sorted(other.package for other in found if other.id == item.id))
            problem = f"{packages} both provide an extension with this id. Uninstall one of them."
            item = replace(item, problem=problem)
        unique[item.id] = item
    unique |= built_in
    return tuple(unique[name] for name in sorted(unique))


def built_in_manifests() -> tuple[Manifest, ...]:
    """The readable manifests of the extensions that come with Nacre.

    Reads files only, so that `nacre --help` does not import the code that reads installed packages.
    """
    found = []
    for path in sorted(Path(__file__).parents[3].glob(f"extensions/*/{MANIFEST_FILE}")):
        try:
            found.append(parse_manifest(path.read_text(encoding="utf-8")))
        except (OSError, ManifestInvalid):
            continue
    return tuple(found)


def built_in_extensions() -> Mapping[str, Installed]:
    """The extensions that come with Nacre, by id. Other packages are not examined."""
    return {item.id: item for item in _installed(_built_in_entry_points())}


def built_in_extension(name: str) -> Installed | None:
    """One extension that comes with Nacre. It does not read the other manifests, which takes 10 ms."""
    return next(iter(_installed(point for point in _built_in_entry_points() if point.name == name)), None)


def _built_in_entry_points() -> Sequence[EntryPoint]:
    from importlib.metadata import PackageNotFoundError, distribution

    try:
        return tuple(distribution(PACKAGE).entry_points.select(group=GROUP))
    except PackageNotFoundError:
        return ()


def _installed(entry_points: Iterable[EntryPoint]) -> list[Installed]:
    packages: dict[Distribution, tuple[str, str]] = {}  # reading the names of all takes most of the time
    found = []
    for point in entry_points:
        if (dist := point.dist) is not None and dist not in packages:
            packages[dist] = dist.metadata["Name"], dist.metadata["Version"]
        found.append(_read(point, *packages[dist] if dist else ("", "")))
    return found


def _read(entry_point: EntryPoint, package: str, version: str) -> Installed:
    manifest, problem = None, ""
    try:
        manifest = parse_manifest(_manifest_text(entry_point))
        if manifest.id != entry_point.name:
            problem = f"Its entry point is named {entry_point.name!r}, but its manifest {manifest.id!r}."
    except ManifestInvalid as error:
        problem = str(error)
    except Exception as error:  # noqa: BLE001 - one package's broken install must not hide the others
        problem = f"Its {MANIFEST_FILE} cannot be read: {type(error).__name__}: {error}."
    return Installed(
        id=entry_point.name,
        package=package,
        version=version,
        entry_point=entry_point,
        manifest=manifest,
        problem=problem,
    )


def _manifest_text(entry_point: EntryPoint) -> str:
    """The manifest in the package's folder.

    Only the top package is looked up, because finding a module inside it would run the package.
    """
    top, *inner = entry_point.module.split(".")
    spec = find_spec(top)
    if spec is None or not spec.submodule_search_locations:
        raise ManifestInvalid(f"There is no package {top!r}, which its entry point names.")
    for folder in map(Path, spec.submodule_search_locations):
        for depth in range(len(inner), -1, -1):
            file = folder.joinpath(*inner[:depth], MANIFEST_FILE)
            if file.is_file():
                return file.read_text(encoding="utf-8")
    raise ManifestInvalid(f"Its package {entry_point.module!r} has no {MANIFEST_FILE}.")
