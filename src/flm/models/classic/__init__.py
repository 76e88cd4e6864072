"""The older Fourier networks that the paper reviews."""
