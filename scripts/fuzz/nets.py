"""Known nets, small, of T = torch or pyframe."""
