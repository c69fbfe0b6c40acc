"""Tests in a browser; a package, so that its fixtures (a browser, a Python in it) end with it."""
