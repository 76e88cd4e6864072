"""`python -m flm.cli`, the same as `flm`."""

from flm.cli import main

main()
