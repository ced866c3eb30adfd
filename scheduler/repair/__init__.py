"""What mends claims and pods: after a crash, of attempts that came to nothing, of devices that cannot serve."""
