"""Images; a package, as files of the same name lie in other folders of the tests."""
