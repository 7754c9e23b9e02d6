"""Hooks of mkdocs: pages of the root and the reference join docs/, and links lead to them.

README.md is the home page. Links to sources lead to copies of them below ``source/``, so that the
site needs no network.
"""

from __future__ import annotations

import re
from pathlib import Path, PurePosixPath
from typing import Any

from mkdocs.structure.files import File, Files

from tools.site.reference import pages

ROOT = Path(__file__).resolve().parents[2]
OF_ROOT = {
    "README.md": "index.md",
    "CONTRIBUTING.md": "contributing.md",
    "CHANGELOG.md": "changelog.md",
    "SECURITY.md": "security.md",
    "tuning_logs/README.md": "log_format.md",
}
LINK = re.compile(r"(\]\()([^)\s#:]+)(#[^)\s]*)?(\))")


def on_files(files: Files, config: Any) -> Files:
    """Adds the pages that do not lie in docs/, and the sources that pages link to."""
    for source, name in OF_ROOT.items():
        files.append(File.generated(config, name, content=(ROOT / source).read_text()))
    for name, text in pages().items():
        files.append(File.generated(config, name, content=text))
    linked = {
        target
        for page in ((ROOT / "docs").glob("*.md"), (ROOT / name for name in OF_ROOT))
        for path in page
        for match in LINK.finditer(path.read_text())
        if (target := _target(path, match[2])) is not None
    }
    for target in sorted(linked):
        name = f"source/{target.relative_to(ROOT)}"
        files.append(File.generated(config, f"{name}.txt", content=target.read_text()))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Leads links of a page to the pages of the site and to the copies of sources."""
    origins = {name: source for source, name in OF_ROOT.items()}
    name = page.file.src_uri
    if name.startswith("reference/"):
        return markdown
    origin = ROOT / origins.get(name, f"docs/{name}")

    def lead(match: re.Match[str]) -> str:
        target = _target(origin, match[2])
        if target is not None:
            link = f"source/{target.relative_to(ROOT)}.txt"
        else:
            path = (origin.parent / match[2]).resolve()
            if not path.is_relative_to(ROOT) or path.is_dir():
                return match[0]
            inside = str(PurePosixPath(path.relative_to(ROOT)))
            link = OF_ROOT.get(inside, inside.removeprefix("docs/"))
        return f"{match[1]}{link}{match[3] or ''}{match[4]}"

    return LINK.sub(lead, markdown)


def _target(page: Path, link: str) -> Path | None:
    """Returns the source that a link leads to; None for pages, pictures and what is not there."""
    path = (page.parent / link).resolve()
    kept = path.suffix not in (".md", ".png", ".svg") and path.is_file()
    return path if kept and path.is_relative_to(ROOT) else None
