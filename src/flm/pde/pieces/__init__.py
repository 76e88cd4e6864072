"""Many small boxes instead of one large series: orthonormal functions on each piece, square rows, elimination piece by piece.

The order in which data walks:

1. `line` and `functions`: Legendre functions, orthonormal on a box, with their derivatives at Gauss nodes.
2. `tree`: the domain cut into boxes, the faces between them, and the traces that live on the faces. `shape`: what a region
   leaves of a box; `cut`: functions on what it leaves.
3. `rows`: what equation, conditions and ties ask of the coefficients of one piece and its traces. `cut_rows`: the same where
   a boundary cuts.
4. `elimination`: the pieces' rows reduced to triangles, neighbors merged, and substituted back.
5. `newton`: nonlinear problems as a sequence of linear ones.
6. `adapt`: more functions or more pieces where the coefficients ask for them, until two answers agree.
7. `slabs`: problems that march in time, one slab after the other.
8. `fields`, `readings`, `misfit`, `evidence`, `inverse`: numbers and functions of the problem that readings decide.
"""
