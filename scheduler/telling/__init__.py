"""What pods are told: events, conditions, nominations."""
