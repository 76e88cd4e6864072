"""The older Fourier networks that the paper reviews, each named by the paper's citation key.

`cosine_squasher` has GW88, cosines made of clumps of squashing neurons; `fixed_lattice` ZP95 and YDS03, classical series
with output weights by least squares; `random_waves` TSM20 and MYL22, random frequencies that are not trained;
`trained_waves` S99, L13 and NM21, whose frequencies are. Those that are sums of waves say so by their `series`.
"""
