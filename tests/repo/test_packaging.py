"""What a wheel holds is listed by hand in pyproject.toml; nothing may be missing there."""

from __future__ import annotations

import tomllib

import repo_sources as sources

PROJECT = tomllib.loads((sources.ROOT / "pyproject.toml").read_text())


def test_every_package_is_listed() -> None:
    found = {
        sources.module_name(path) for path in sources.library_files() if path.name == "__init__.py"
    }
    assert set(PROJECT["tool"]["setuptools"]["packages"]) == found


def test_every_folder_of_modules_is_a_package() -> None:
    folders = {(sources.ROOT / path).parent for path in sources.library_files()}
    assert not [str(f) for f in folders if not (f / "__init__.py").exists()]


def test_the_version_is_one() -> None:
    import loopwright

    assert loopwright.__version__ == PROJECT["project"]["version"]
