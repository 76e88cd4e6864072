"""Many small boxes instead of one large series: orthonormal functions on each piece, square rows, elimination piece by piece.

The steps, in order:

1. `setup`: orders and conditions of a problem; `places`: where conditions hold, where coefficients jump and conditions end.
2. `functions`: tensor products of Legendre functions, orthonormal on a box, and how many conditions each unknown takes.
3. `tree`: the domain cut into boxes, the faces between them, and the traces on the faces. `shape`: the part of
   a box inside a region; `cut`: functions and rows on that part.
4. `rows`: what the equation, the conditions and the ties demand of the coefficients of one piece and its traces.
5. `elimination`: the pieces' rows reduced to triangles, neighbors merged, and substituted back; factors are kept for equal
   pieces and for further right-hand sides.
6. `newton`: nonlinear problems as a sequence of linear ones, with damped steps if necessary.
7. `adapt`, `refine`: more functions or more pieces where the coefficients are large, until two answers agree; whether there
   are other solutions.
8. `marching`: problems that march in time, one slab after the other, twice: `ordinary` without space, `slabs` over a line,
   `planes` over a plane.
9. `fields`, `readings`, `inverse`: numbers and functions of the problem found from readings, and how well.
"""
