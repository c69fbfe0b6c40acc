"""Functions that are captured: what they read, rely on and change, and how they are run again."""
