"""A hook for mkdocs: formulas between dollars become MathML while the pages are built, so that they need no script."""

import html
import logging
import re

from latex2mathml.converter import convert

_INLINE = re.compile(r'<span class="arithmatex">\\\((.*?)\\\)</span>', re.DOTALL)
_DISPLAY = re.compile(r'<div class="arithmatex">\s*\\\[(.*?)\\\]\s*</div>', re.DOTALL)


def on_page_content(content, page, **_):
    content = _DISPLAY.sub(lambda found: convert(html.unescape(found[1]).strip(), display="block"), content)
    if "$$" in content:
        logging.getLogger("mkdocs.hooks.math").warning(
            "%s: a $$ formula needs blank lines around it", page.file.src_uri
        )
    return _INLINE.sub(lambda found: convert(html.unescape(found[1]).strip()), content)
