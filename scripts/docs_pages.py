"""A hook for mkdocs: the page of benchmarks is benchmarks/README.md itself, so that no number is written twice."""

from pathlib import Path

SOURCE = Path(__file__).parents[1] / "benchmarks" / "README.md"


def on_page_markdown(markdown, page, **_):
    if page.file.src_uri == "benchmarks.md":
        return SOURCE.read_text(encoding="utf-8").replace("](../docs/", "](")
    return markdown
