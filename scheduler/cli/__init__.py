"""One file per subcommand of `dra`."""
