"""The command line `samerack`: one module per family of subcommands."""
