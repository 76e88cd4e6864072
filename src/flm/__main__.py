"""`python -m flm` is the command `flm`."""

from flm.cli import main

if __name__ == "__main__":
    main()
