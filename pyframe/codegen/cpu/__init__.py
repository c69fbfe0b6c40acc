"""What the CPU's code generators share: the assembler's interface, and routines written with it."""
