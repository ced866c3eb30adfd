"""Everything that touches the world: input, output, the command line."""
