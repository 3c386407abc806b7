"""Build the site: the pages of the repository and the reference of the Python API.

    python docs/site.py [FOLDER]

Pages link to files all over the repository, so the site is built from a copy of it that holds
the pages and what they link to. Nothing is fetched from a network.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
FOLDERS = ("docs", "results", "bench/peers", "examples", "deploy")
FILES = ("*.md", "LICENSE")
LEFT_OUT = ("__pycache__", "*.pyc", "site.py", "picture.py", "spark-warehouse", "metastore_db")


def copy_pages(target: Path) -> None:
    """Copy the pages, and what they link to, into a new folder."""
    if target.exists():
        shutil.rmtree(target)
    target.mkdir(parents=True)
    for pattern in FILES:
        for file in ROOT.glob(pattern):
            shutil.copy(file, target / file.name)
    for folder in FOLDERS:
        ignore = shutil.ignore_patterns(*LEFT_OUT)
        shutil.copytree(ROOT / folder, target / folder, ignore=ignore)


def build(site: Path, pages: Path) -> int:
    """Build the site into a folder, from a copy of the pages; returns what mkdocs returned."""
    copy_pages(pages)
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--clean", "--site-dir", site]
    environment = {**os.environ, "QUICKSILVER_PAGES": str(pages)}
    return subprocess.run(command, cwd=ROOT, env=environment, check=False).returncode


if __name__ == "__main__":
    made = ROOT / "build"
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else made / "site"
    if code := build(folder, made / "pages"):
        sys.exit(code)
    print(f"open {folder}/index.html")
    print(f"for the search: python3 -m http.server -d {folder} 8000, then http://localhost:8000")
