"""Code generators: each turns scheduled kernels into what one kind of processor runs."""
