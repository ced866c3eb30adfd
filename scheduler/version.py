"""The version of dra-scheduler, defined only here."""

VERSION = "0.1.0"
