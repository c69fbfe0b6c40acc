"""Products, decompositions, Fourier transforms."""
