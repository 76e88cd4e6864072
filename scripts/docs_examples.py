"""An extension for griffe: the house's `Example:` is the section that it knows as `Examples:`, shown as code."""

import re

import griffe


class Examples(griffe.Extension):
    """Rename the section in every docstring."""

    def on_instance(self, *, obj, **_):
        if obj.docstring is not None:
            obj.docstring.value = re.sub(r"(?m)^Example:[ ]*$", "Examples:", obj.docstring.value)
