"""One series on a lattice of long waves, or with N learned sub-networks, found by dense least squares."""
