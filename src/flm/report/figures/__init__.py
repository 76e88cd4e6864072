"""What the `.plot()` of an answer draws with matplotlib: `fields`, `control` laws and `data`, in the look of `style`."""
