"""What everything stands on: dtypes, devices, modes, nodes, views, ops and how they are called."""
