"""The evaluation of a checked expression: planned once, run for each device."""
