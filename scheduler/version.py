"""The version of dra-scheduler, in the one place that says it."""

VERSION = "0.1.0"
