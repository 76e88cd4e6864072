"""A hook for mkdocs: the page of benchmarks is benchmarks/README.md itself, and the menu keeps to the pages that exist."""

from pathlib import Path

ROOT = Path(__file__).parents[1]


def on_config(config):
    keep = lambda entry: [kept for item in entry if (kept := _existing(item, Path(config.docs_dir)))]
    config.nav = keep(config.nav)
    return config


def _existing(item, folder):
    """An entry of the menu without pages that are not there; None when nothing is left."""
    ((title, target),) = item.items()
    if isinstance(target, str):
        return item if (folder / target).is_file() else None
    inside = [kept for one in target if (kept := _existing(one, folder))]
    return {title: inside} if inside else None


def on_page_markdown(markdown, page, **_):
    if page.file.src_uri == "benchmarks.md":
        return (ROOT / "benchmarks" / "README.md").read_text(encoding="utf-8").replace("](../docs/", "](")
    return markdown
