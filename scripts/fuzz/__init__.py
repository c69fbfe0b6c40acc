"""Random programs in pyframe, compiled, and in PyTorch in float64: `python scripts/fuzz --help`.

To add a family, write a function in a module that `families.py` names in MODULES:

    @family("rolls")
    def rolls(d: Draw) -> None:
        x = d.arg("x", d.shape(2, 4))   # in some layout; kind="positive" is one of KINDS of data
        d.line(f"y = T.roll({x}, {d.int(-3, 3)}, {{0|-1}})")   # what is looked at: d.results("y")

The same seed must draw the same program. What is drawn is text (`program.Program`): it is run with
T = torch and T = pyframe, several times with other data, forward and backward, and reduced by
leaving out what a failure does not need. A family whose cases are no such text returns an object of
its own from its function: whatever has the three members of `check.Case`.

`backends.py` says where programs run, `check.py` what is compared and how far off it may be, and
`known.py` what is not pyframe's mistake, with the reason. A failure that is mended becomes a row of
the table of tests that it belongs to.
"""
