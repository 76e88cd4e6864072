"""Many small boxes instead of one large series: orthonormal functions on each piece, square rows, elimination piece by piece.

The order in which data walks:

1. `places`, `setup`: where conditions hold; `jumps`: where coefficients jump and conditions end.
2. `functions`: tensor products of Legendre functions, orthonormal on a box, and how many conditions each unknown takes.
3. `tree`: the domain cut into boxes, the faces between them, and the traces that live on the faces. `shape`: what a
   region leaves of a box; `cut`: functions and rows on what it leaves.
4. `rows`: what equation, conditions and ties ask of the coefficients of one piece and its traces.
5. `elimination`: the pieces' rows reduced to triangles, neighbors merged, and substituted back; factors are kept for equal
   pieces and for further right-hand sides.
6. `newton`: nonlinear problems as a sequence of linear ones, turned on in steps where they must be; `several`: whether
   there are other solutions.
7. `adapt`, `refine`: more functions or more pieces where the coefficients ask for them, until two answers agree.
8. `marching`: problems that march in time, one slab after the other, twice: `ordinary` without space, `slabs` over a line,
   `planes` over a plane (with `plane_slab`).
9. `fields`, `readings`, `inverse`: numbers and functions of the problem that readings decide; `bands`: how well.
"""
